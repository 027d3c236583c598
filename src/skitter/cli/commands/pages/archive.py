"""Archives of a crawl: list, show, get, push, pull, pack, prune."""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from skitter.archive.index import Archive
from skitter.archive.package import pack
from skitter.archive.record import Kept
from skitter.archive.store import Copied, Store
from skitter.cli.common import Json, Yes, confirm
from skitter.cli.parameters import Argument, Group, Option
from skitter.cli.show.output import emit_json, emit_line, grid, pairs, print_progress, say
from skitter.errors import UsageError
from skitter.observe.report import DATE_AND_TIME, moment, some
from skitter.redact import redact
from skitter.settings import resolve
from skitter.settings.option import seconds_of

if TYPE_CHECKING:
    pass

Folder = Annotated[Path, Option("--from", help="The folder of the archive.")]
Url = Annotated[str, Argument(metavar="URL", help="The page, as it was requested.")]
HERE = Path("archive")

group = Group(help="Show and read the pages that a crawl has kept.")


@group.add("list")
def list_pages(
    match: Annotated[str, Option("--match", help="Only URLs with this text.")] = "",
    limit: Annotated[int, Option(min=1, help="Maximum number to show.")] = 50,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """List the kept pages: the newest response of each."""
    archive = Archive.open(folder)
    warn_of_damage(archive)
    found = [visits for visits in archive.by_page() if match in visits[-1].url]
    pages = [visits[-1] for visits in found]
    if as_json:
        for kept in pages:
            emit_line(kept)
        return
    if not pages:
        say(f"{folder} has no page" + (f" with {match!r} in its URL." if match else "."))
        return
    rows = [[_when(page), page.status, page.size, page.url] for page in islice(pages, limit)]
    grid(["kept", "status", "bytes", "URL"], rows)
    jobs = Counter(
        job or "other tools" for visits in found for job in {visit.job for visit in visits}
    )
    by_job = ", ".join(f"{name} {count:,}" for name, count in sorted(jobs.items()))
    size_mb = sum(path.stat().st_size for path in folder.glob("*.warc*")) / 1e6
    more = f" --limit {len(pages)} shows all." if len(pages) > limit else ""
    say(f"{some(len(pages), 'page')} ({by_job}) in {size_mb:,.1f} MB.{more}")


@group.add("show")
def show(url: Url, folder: Folder = HERE, as_json: Json = False) -> None:
    """Show all that is kept of a page."""
    visits = _visits(Archive.open(folder), url, folder)
    if as_json:
        emit_json(visits)
        return
    for number, kept in enumerate(visits):
        if number:
            say("")
        pairs(
            [
                ("kept", _when(kept)),
                ("status", f"{kept.status}{' (answered with 304)' * bool(kept.head_at)}"),
                ("bytes", f"{kept.size:,}"),
                ("digest", f"sha1:{kept.digest}"),
                ("handler", kept.request.get("handler", "(the default)")),
                ("record", f"{kept.file}, byte {kept.offset:,}"),
                *([("body", "{}, byte {:,}".format(*kept.body_at))] if kept.body_at else []),
                *([("screenshot", f"byte {kept.shot_at:,}")] if kept.shot_at is not None else []),
            ]
        )


@group.add("get")
def get(
    url: Url,
    folder: Folder = HERE,
    headers: Annotated[
        bool, Option("--headers", help="The status and headers, not the body.")
    ] = False,
    screenshot: Annotated[
        bool, Option("--screenshot", help="The screenshot, as PNG, not the body.")
    ] = False,
) -> None:
    """Print the newest response to a URL, byte for byte."""
    archive = Archive.open(folder)
    response = archive.read(_visits(archive, url, folder)[-1])
    if headers:
        say(f"HTTP {response.status}")
        pairs(response.headers)
        return
    found = response.screenshot if screenshot else response.body
    if found is None:
        how = "a handler with Render(screenshot=True) makes one"
        raise UsageError(f"{url} was kept without a screenshot: {how}.")
    sys.stdout.flush()
    sys.stdout.buffer.write(found)


@group.add("pack")
def pack_archive(
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="FILE", help="Default: the folder's name, as .wacz."),
    ] = None,
    job: Annotated[str, Option("--job", help="Only what this job has kept.")] = "",
    folder: Folder = HERE,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Pack the archive into one file for other tools, a WACZ."""
    archive = Archive.open(folder)
    warn_of_damage(archive)
    to = out or folder.resolve().with_suffix(".wacz")
    urls = {response.url for response in archive.responses() if job in ("", response.job)}
    if not urls:
        raise UsageError(f"{folder} has no page" + (f" of {job}." if job else "."))
    if to.exists() and not yes:
        confirm(f"Replace {to}?", what=f"{to} is there already, and pack replaces it")
    try:
        did = pack(archive, to, job=job)
    except OSError as error:
        raise UsageError(f"{to} cannot be written: {error.strerror or error}") from error
    if as_json:
        emit_json({"file": str(to), **did._asdict()})
        return
    what = f"{some(did.responses, 'response')} of {some(did.pages, 'page')}"
    say(f"{to} has {what}, in {to.stat().st_size / 1e6:,.1f} MB.")
    if secret := {url for url in urls if redact(url) != url}:
        say(
            f"Before you share it: {some(len(secret), 'URL')} may have a key or a token in it, "
            f"such as {redact(min(secret))}."
        )


StoreAt = Annotated[
    str | None,
    Argument(metavar="[STORE]", help="Such as s3://BUCKET/FOLDER. Default: archive.store."),
]


@group.add("push")
def push(store: StoreAt = None, folder: Folder = HERE, as_json: Json = False) -> None:
    """Copy finished files to an object store.

    Workers do so by themselves if archive.store is set.
    """
    Archive.open(folder)
    to = _store(store)
    _show_copied(to.push(folder), f"to {to.shown}", as_json=as_json)


@group.add("pull")
def pull(store: StoreAt = None, folder: Folder = HERE, as_json: Json = False) -> None:
    """Copy what an object store has into the folder."""
    _show_copied(_store(store).pull(folder), f"to {folder}", as_json=as_json)


def _store(named: str | None) -> Store:
    if url := named or resolve({}).archive.store:
        return Store(url)
    raise UsageError("name the object store, such as s3://BUCKET/FOLDER, or set archive.store.")


def _show_copied(did: Copied, where: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(did._asdict())
    else:
        size_mb = did.size_bytes / 1e6
        say(f"Copied {some(did.files, 'file')} with {size_mb:,.1f} MB {where}.")


@group.add("prune")
def prune(
    older: Annotated[
        str,
        Option(
            "--older",
            metavar="AGE",
            help="Responses older than this, such as 30d.",
            show_default=False,
        ),
    ],
    keep_last: Annotated[
        int, Option("--keep-last", min=1, help="Responses of each page to keep, however old.")
    ] = 1,
    folder: Folder = HERE,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove old responses, but keep the last of each page.

    Space is freed by whole files: those in which no response is left.
    """
    archive, age_s = Archive.open(folder), seconds_of("--older", older)
    warn_of_damage(archive)
    if not yes:
        confirm(f"Remove responses older than {older} from {folder}?", what="prune removes pages")
    did = archive.prune(before=time.time() - age_s, keep_last=keep_last)
    if as_json:
        emit_json(msgspec.to_builtins(did))
        return
    files = f"{some(did.files, 'file')} with {did.size_bytes / 1e6:,.1f} MB"
    say(f"Removed {some(did.responses, 'response')} and {files} from {folder}.")


def warn_of_damage(archive: Archive) -> None:
    if found := archive.unreadable:
        more = f" and {some(len(found) - 1, 'other place')}" * (len(found) > 1)
        print_progress(f"{archive.folder} has parts that cannot be read: {found[0]}{more}.")


def _visits(archive: Archive, url: str, folder: Path) -> list[Kept]:
    if found := archive.find(url):
        return found
    raise UsageError(f"{url} is not in {folder}: `skitter archive list --match TEXT` looks for it.")


def _when(kept: Kept) -> str:
    return moment(kept.at, DATE_AND_TIME)
