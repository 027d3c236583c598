"""What a worker may do. Anyone who can write to Redis can ask for anything, so a spider is loaded
and an output opened only if this worker's configuration names it, or if the request is signed with
the shared secret. Without a signature, additional private hosts, ignoring robots.txt and larger
pages are not granted either.

SKITTER_SECRET is for a fleet. On the embedded server the secret is a file in its directory that
only its user can read, created when first needed. Otherwise there is none.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.celery.config import MIN_SECRET_CHARS, OUTPUT, SECRET, SPIDERS, output_name
from skitter.embedded.home import EmbeddedServer, disk_errors, prepare
from skitter.errors import DirectoryUnusable, NotAllowed, UsageError, shorten
from skitter.settings import resolve
from skitter.settings.tables import overlaid
from skitter.spider.importing import names_a_file, split_target
from skitter.trust import read_or_make

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.celery.config import CelerySettings
    from skitter.celery.jobs import JobSpec
    from skitter.settings import FetchOptions, Settings, WorkerConfig
    from skitter.spider import Spider


#: The end of every refusal.
HOW = f"set {SECRET} to the same text for callers and workers"
#: The same in a worker that has one.
FROM_OUTSIDE = (
    f"send the task from a caller with the same {SECRET}: workers do not sign what they send"
)


@dataclass(frozen=True, slots=True)
class Secret:
    """Signs with HMAC-SHA256."""

    key: bytes = field(repr=False)

    def sign(self, purpose: str, name: str, content: Any) -> str:
        """`purpose` and `name`, of a job or a task, are signed too: a signature is good for nothing
        else."""
        plain = msgspec.json.encode(content, order="sorted", enc_hook=str)
        parts = (purpose.encode(), name.encode(), plain)
        framed = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return hmac.new(self.key, framed, "sha256").hexdigest()

    def has_signed(self, signature: object, purpose: str, name: str, content: Any) -> bool:
        """In constant time."""
        if not isinstance(signature, str):
            return False
        expected = self.sign(purpose, name, content)
        return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))


def find_secret(given: str | None, where: Settings) -> Secret | None:
    """The given one, or the embedded server's; None for any other server."""
    if given:
        return Secret(given.encode())
    if where.redis_url is not None:
        return None
    server = EmbeddedServer(directory=where.directory)
    prepare(server)
    with disk_errors(server):
        return Secret(_read(server.directory / "secret"))


def _read(path: Path) -> bytes:
    """Raises DirectoryUnusable for a file that others created or could have read."""
    text = read_or_make(path)
    if len(text) < MIN_SECRET_CHARS:
        raise DirectoryUnusable(f"{path} is too short: remove it to get a new secret.")
    return text.encode()


def signed(spec: JobSpec, secret: Secret | None) -> JobSpec:
    signature = secret.sign("spec", spec.job, _without_signature(spec)) if secret else ""
    return msgspec.structs.replace(spec, signature=signature)


def is_signed(spec: JobSpec, secret: Secret | None) -> bool:
    if secret is None:
        return False
    return secret.has_signed(spec.signature, "spec", spec.job, _without_signature(spec))


def _without_signature(spec: JobSpec) -> JobSpec:
    return msgspec.structs.replace(spec, signature="")


def check_job(spec: JobSpec, settings: CelerySettings, *, signed: bool) -> str:
    """The DSN of its output. Raises NotAllowed for what this worker may not run, saying what to
    set."""
    out = check_permitted(spec.target, spec.out, settings, signed=signed)
    for what, given in (("reducer", spec.reducer), ("arguments", spec.config.arguments)):
        if given and not signed:
            raise NotAllowed(f"the {what} of {spec.job} has no signature: {HOW}.")
    return out


def granted(
    spec: JobSpec, spider: Spider, settings: CelerySettings, *, signed: bool
) -> WorkerConfig:
    """How this worker works on a job: as its environment, its file and the spider say. A signed job
    may override that, but for browsers, proxies and the archive, which depend on the machine."""
    asked, own = spec.config, resolve(job=spec.job, spider=spider.tables)
    usual = overlaid(own.fetch, settings.fetch) if settings.fetch else own.fetch
    return replace(
        asked,
        fetch=_fetch(asked.fetch, usual, settings, signed=signed),
        sessions=overlaid(own.sessions, asked.sessions),
        files=overlaid(own.files, asked.files) if signed else own.files,
        browser=own.browser,
        proxies=own.proxies,
        routes=own.routes,
        archive=own.archive,
    )


def _fetch(
    asked: FetchOptions, own: FetchOptions, settings: CelerySettings, *, signed: bool
) -> FetchOptions:
    hosts, fetch = {*settings.allow_hosts, *own.allow_hosts}, overlaid(own, asked)
    if signed:
        hosts |= set(asked.allow_hosts)
        fetch = replace(fetch, proxy=own.proxy)
    else:
        fetch = replace(own, max_body_mb=min(fetch.max_body_mb, own.max_body_mb))
    obeys = settings.obey_robots and fetch.obey_robots
    return replace(fetch, allow_hosts=tuple(hosts), obey_robots=obeys)


def check_permitted(target: str, out: str, settings: CelerySettings, *, signed: bool) -> str:
    """The DSN of an output. Raises NotAllowed for a spider or an output that may not be used."""
    if not signed and target and not is_named(target, settings.spiders):
        how = FROM_OUTSIDE if settings.secret else HOW
        raise NotAllowed(
            f"this worker may not run the spider {shorten(target)!r}: start it with "
            f"{SPIDERS}={shorten(target)} in its environment, or {how}."
        )
    return _dsn(out, settings.outputs, signed=signed)


def is_named(target: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern names the spider: a file by its real path, a module by its name. A pattern
    without `:name` names all spiders in it."""
    where, name = split_target(target)
    matches = _is_among if names_a_file(where) else fnmatchcase
    return any(
        only in (None, name)
        and names_a_file(there) == names_a_file(where)
        and matches(where, there)
        for there, only in map(split_target, patterns)
    )


def _is_among(file: str, pattern: str) -> bool:
    real, found = Path(file).resolve(), glob(pattern, recursive=True)  # noqa: PTH207
    return any(Path(one).resolve() == real for one in found)


def _dsn(out: str, outputs: Mapping[str, str], *, signed: bool) -> str:
    if not out:
        return ""
    if dsn := outputs.get(output_name(out)):
        return dsn
    check_out(out)
    if signed and not is_output_name(out):
        return out
    variable, passing = f"{OUTPUT}{output_name(out).upper()}", ""
    if not is_output_name(out):
        variable, passing = f"{OUTPUT}NAME", ", and pass out='NAME'"
    raise NotAllowed(
        f"this worker has no output {shorten(out)!r}: start it with {shorten(variable)}=DSN in "
        f"its environment{passing}."
    )


def check_out(out: str) -> None:
    """Raises UsageError for an address: its password would be readable in the broker."""
    if "://" in out:
        raise UsageError(
            f"out= is the name of an output, not an address: set {OUTPUT}WAREHOUSE to "
            f"{out.partition('://')[0]}://... on the workers, and pass out='warehouse'."
        )


def is_output_name(out: str) -> bool:
    return not {".", "/", ":"} & set(out)
