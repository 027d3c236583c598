"""What a worker may do. Whoever can write to Redis can ask for anything; so a spider is loaded and
an output opened only if this worker's own configuration names it, or if whoever asked has signed
it with the shared secret. Private hosts that were not allowed here, leave to ignore robots.txt, and
pages larger than usual count for nothing without a signature.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.celery.secret import HOW
from skitter.errors import NotAllowed, UsageError, shorten
from skitter.fetch.options import MAX_BODY_BYTES
from skitter.spider.load import names_a_file, split_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.celery.charges import Charge
    from skitter.celery.config import CelerySettings

SPIDERS = "SKITTER_SPIDERS"
OUTPUT = "SKITTER_OUTPUT_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a charge may have of this worker."""

    out: str = field(default="", repr=False)  # a DSN: it may hold a password
    hosts: frozenset[str] = frozenset()
    obey_robots: bool = True
    max_page_bytes: int = MAX_BODY_BYTES


def rights_of(charge: Charge, settings: CelerySettings, *, signed: bool) -> Rights:
    """Raises NotAllowed, with what to set."""
    out = check_rights(charge.target, charge.out, settings, signed=signed)
    if charge.reducer and not signed:
        raise NotAllowed(
            f"the reducer of {charge.job} was not signed by a worker of this app: {HOW}."
        )
    return Rights(
        out=out,
        hosts=settings.allow_hosts | (frozenset(charge.allow) if signed else frozenset()),
        obey_robots=settings.obey_robots and (charge.obey_robots or not signed),
        max_page_bytes=charge.max_page_bytes
        if signed
        else min(charge.max_page_bytes, MAX_BODY_BYTES),
    )


def check_rights(target: str, out: str, settings: CelerySettings, *, signed: bool) -> str:
    """The DSN of an output. Raises NotAllowed for a spider or an output that may not be used."""
    if not signed and target and not is_named(target, settings.spiders):
        raise NotAllowed(
            f"this worker may not run the spider {shorten(target)!r}: start it with `--spiders "
            f"{shorten(target)}` (or {SPIDERS}), or {HOW}."
        )
    return _dsn(out, settings.outputs, signed=signed)


def is_named(target: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns names the spider: a file by its real place, a module by its name.
    A pattern without `:name` names all spiders in there."""
    where, name = split_target(target)
    for pattern in patterns:
        there, only = split_target(pattern)
        if only is None or only == name:
            if names_a_file(where):
                if names_a_file(there) and _is_among(where, there):
                    return True
            elif not names_a_file(there) and fnmatchcase(where, there):
                return True
    return False


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
    raise NotAllowed(
        f"this worker has no output {shorten(out)!r}: start it with `--output NAME=DSN` (or "
        f"{OUTPUT}NAME), and pass out='NAME'."
    )


def check_out(out: str) -> None:
    """The name of an output, or a file. Raises UsageError for an address: it would travel through
    the broker, with its password, for everybody to read."""
    if "://" in out:
        raise UsageError(
            f"out= is the name of an output, not an address: set {OUTPUT}WAREHOUSE to "
            f"{out.partition('://')[0]}://... on the workers, and pass out='warehouse'."
        )


def is_output_name(out: str) -> bool:
    return not {".", "/", ":"} & set(out)


def output_name(name: str) -> str:
    """As variables of the environment can spell it."""
    return name.lower().replace("-", "_")


def spiders_in_environment() -> tuple[str, ...]:
    given = os.environ.get(SPIDERS, "").split(",")
    return tuple(one.strip() for one in given if one.strip())


def outputs_in_environment() -> dict[str, str]:
    return {
        output_name(name.removeprefix(OUTPUT)): dsn
        for name, dsn in os.environ.items()
        if name.startswith(OUTPUT) and dsn
    }
