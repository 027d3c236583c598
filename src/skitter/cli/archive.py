"""Kept pages: archive list, show, get."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from skitter.archive.index import Archive
from skitter.archive.record import Kept
from skitter.cli.common import Json
from skitter.cli.output import emit_json, emit_line, grid, pairs, print_progress, say
from skitter.errors import UsageError
from skitter.report import DATE_AND_TIME, moment, some

Folder = Annotated[Path, typer.Option("--from", help="The folder of the kept pages.")]
Url = Annotated[str, typer.Argument(metavar="URL", help="As it was requested.")]
HERE = Path("archive")

group = typer.Typer(no_args_is_help=True, help="Show and read the pages that a crawl has kept.")


@group.command("list")
def list_pages(
    match: Annotated[str, typer.Option("--match", help="Only URLs with this text.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 50,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """List the kept pages: the newest response of each."""
    archive = Archive.open(folder)
    warn_of_damage(archive)
    pages = [kept for kept in archive if match in kept.url]
    if as_json:
        for kept in pages:
            emit_line(kept)
        return
    if not pages:
        say(f"{folder} has no page" + (f" with {match!r} in its URL." if match else "."))
        return
    rows = [[_when(one), one.status, one.size, one.url] for one in islice(pages, limit)]
    grid(["kept", "status", "bytes", "URL"], rows)
    jobs = Counter(one.job or "other tools" for one in pages)
    by_job = ", ".join(f"{name} {count:,}" for name, count in sorted(jobs.items()))
    files = [one.stat().st_size for one in folder.glob("*.warc*")]
    size_mb = sum(files) / 1e6
    more = f" --limit {len(pages)} shows all." if len(pages) > limit else ""
    say(f"{some(len(pages), 'page')} ({by_job}) in {size_mb:,.1f} MB.{more}")


@group.command("show")
def show(url: Url, folder: Folder = HERE, as_json: Json = False) -> None:
    """Show all that is kept of a page: when, what it answered, where it is."""
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
                ("status", kept.status),
                ("bytes", f"{kept.size:,}"),
                ("digest", f"sha1:{kept.digest}"),
                ("handler", kept.request.get("handler", "(the default)")),
                ("record", f"{kept.file}, byte {kept.offset:,}"),
            ]
        )


@group.command("get")
def get(
    url: Url,
    folder: Folder = HERE,
    headers: Annotated[
        bool, typer.Option("--headers", help="The status and headers, not the body.")
    ] = False,
) -> None:
    """Print the newest response to a URL, byte for byte."""
    archive = Archive.open(folder)
    response = archive.read(_visits(archive, url, folder)[-1])
    if headers:
        say(f"HTTP {response.status}")
        pairs(response.headers)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(response.body)


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
