"""Archives of a crawl: read them, and replay them.

Kept pages: archive list, show, get.

Handlers again, on kept pages: replay.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import uvloop

from skitter.archive.diff import Diff, Example, compare, rows_of
from skitter.archive.index import Archive
from skitter.archive.playback import SUFFIX
from skitter.archive.record import Kept
from skitter.cli.common import Arguments, Directory, Json, Redis, pairs_of
from skitter.cli.crawl import Target, plan_of
from skitter.cli.flags import Given, with_flags
from skitter.cli.parameters import Argument, Exit, Group, Option
from skitter.cli.running import run_plan
from skitter.cli.show.output import emit_json, emit_line, grid, pairs, print_progress, say
from skitter.crawl.plan import Plan
from skitter.crawl.replay import SETTINGS, replayed
from skitter.crawl.script import Items, items, read_items
from skitter.errors import UsageError, shorten
from skitter.observe.report import DATE_AND_TIME, moment, some
from skitter.settings.sources import FLAGGED
from skitter.sinks import BadSink, Destination
from skitter.sinks.registry import find_type

Folder = Annotated[Path, Option("--from", help="The folder of the kept pages.")]
Url = Annotated[str, Argument(metavar="URL", help="As it was requested.")]
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


@group.add("show")
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


@group.add("get")
def get(
    url: Url,
    folder: Folder = HERE,
    headers: Annotated[
        bool, Option("--headers", help="The status and headers, not the body.")
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


EXAMPLES = 3
REPLAYING = tuple(one for one in FLAGGED if one.table in ("workers", "output", "log"))


@with_flags(REPLAYING, settable=True)
def replay(
    target: Target,
    folder: Annotated[Path, Option("--from", help="The folder of the kept pages.")] = Path(
        "archive"
    ),
    against: Annotated[
        str | None,
        Option(
            "--against",
            metavar="SPIDER|JOB|OUTPUT",
            help="Compare with another spider, or with stored rows.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        Option("--key", help="Compare rows of a page by this field, not by their place."),
    ] = None,
    job: Annotated[
        str | None, Option("--job", help="Whose pages. Default: the spider's name.")
    ] = None,
    arguments: Arguments = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Run a spider on kept pages, without the web.

    Rows go to JOB-replay.db, or where --out says. With --against, shows what differs, field by
    field; the exit code is then 1 if something that was filled is now empty.
    """
    how = _Replay(Archive.open(folder), job, pairs_of(arguments), given)
    warn_of_damage(how.archive)
    plan = replace(how.plan(target), as_json=as_json, quiet=against is not None)
    if against is None:
        raise Exit(how.run(plan))
    before = rows_of(how.rows_against(against, plan), key)  # it may not be there
    if code := how.run(plan):
        raise Exit(code)
    diff = compare(before, rows_of(_rows(plan), key))
    if as_json:
        emit_json({"rows": diff.rows, "gone": diff.gone, "new": diff.new, "fields": diff.fields})
    else:
        _show(diff)
    raise Exit(1 if diff.loses else 0)


class _Replay:
    """Replays spiders on one archive, alike."""

    def __init__(
        self, archive: Archive, job: str | None, arguments: dict[str, Any], given: Given
    ) -> None:
        self.archive, self.job, self.arguments = archive, job, arguments
        self.given = SETTINGS | {"archive.folder": archive.folder} | given

    def plan(self, target: str, out: str | None = None) -> Plan:
        plan = plan_of(target, self.arguments, None, self.given)
        job = self.job or plan.spider.name
        name = f"{job}{SUFFIX}"
        # Not the output of skitter.toml, which has the rows of the crawl.
        place = out or self.given.get("output.to") or f"{name}.db"
        plan, homeless = replayed(replace(plan, job=name, out=place), self.archive, job=job)
        if homeless:
            print_progress(f"{some(homeless, 'page')} had handlers that {target} does not have.")
        return plan

    def run(self, plan: Plan) -> int:
        return uvloop.run(run_plan(plan))

    def rows_against(self, other: str, plan: Plan) -> Items:
        """The rows of another spider on the same pages, or those that were stored."""
        if not other.partition(":")[0].endswith(".py"):
            return _stored(other, plan)
        with tempfile.TemporaryDirectory() as folder:
            old = replace(self.plan(other, out=str(Path(folder, "before.db"))), quiet=True)
            if code := self.run(old):
                raise Exit(code)
            return _rows(old)


def _stored(out: str, plan: Plan) -> Items:
    """Of an output, or of a job."""
    job, where = plan.job.removesuffix(SUFFIX), plan.where
    try:
        find_type(out)
    except BadSink:
        return items(out, redis=where.redis_url)
    destination = Destination(out, job, where.directory)
    if destination.is_missing:
        hint = "--against takes the output of its crawl, a job, or the file of a spider."
        raise UsageError(f"{out} has no rows of {job}: {hint}")
    return read_items(destination)


def _rows(plan: Plan) -> Items:
    return read_items(Destination(plan.out, plan.job, plan.where.directory))


def _show(diff: Diff) -> None:
    if diff.is_same:
        say(f"Nothing differs: {some(diff.rows, 'row')}, {some(len(diff.fields), 'field')}.")
        return
    say(f"{some(diff.rows, 'row')} compared, {len(diff.gone):,} gone, {len(diff.new):,} new.")
    different = {name: one for name, one in diff.fields.items() if not one.is_same}
    if different:
        columns = ["field", "filled before", "now", "added", "lost", "changed"]
        numbers = {
            name: (one.before, one.now, len(one.added), len(one.lost), len(one.changed))
            for name, one in different.items()
        }
        grid(columns, [[name, *(f"{n:,}" for n in row)] for name, row in numbers.items()])
    for kind, urls in (("gone", diff.gone), ("new", diff.new)):
        for url in urls[:EXAMPLES]:
            say(f"{kind}  {url}")
    for name, one in different.items():
        for how, examples in (("lost", one.lost), ("changed", one.changed), ("added", one.added)):
            for example in examples[:EXAMPLES]:
                _show_example(name, how, example)


def _show_example(name: str, how: str, example: Example) -> None:
    say(f"{name} {how}  {example.url}")
    if how != "added":
        say(f"  - {shorten(repr(example.before))}")
    if how != "lost":
        say(f"  + {shorten(repr(example.now))}")
