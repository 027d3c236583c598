"""Handlers again, on kept pages: replay."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from skitter.archive.diff import Diff, Example, compare, rows_of
from skitter.archive.fetcher import SUFFIX
from skitter.archive.index import Archive
from skitter.cli.archive import warn_of_damage
from skitter.cli.common import Arguments, Directory, Json, Redis, pairs_of
from skitter.cli.crawl import Target, plan_of
from skitter.cli.flags import Given, with_flags
from skitter.cli.output import emit_json, grid, print_progress, say
from skitter.cli.running import run_plan
from skitter.crawl.items import Items, items, read_items
from skitter.crawl.plan import Plan
from skitter.crawl.replay import SETTINGS, replayed
from skitter.errors import UsageError, shorten
from skitter.report import some
from skitter.settings.sources import FLAGGED
from skitter.sinks import BadSink, Destination
from skitter.sinks.registry import find_type

EXAMPLES = 3
REPLAYING = tuple(one for one in FLAGGED if one.table in ("workers", "output", "log"))


@with_flags(REPLAYING, settable=True)
def replay(
    target: Target,
    folder: Annotated[Path, typer.Option("--from", help="The folder of the kept pages.")] = Path(
        "archive"
    ),
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="SPIDER|JOB|OUTPUT",
            help="Compare with another spider, or with stored rows.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="Compare rows of a page by this field, not by their place."),
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", help="Whose pages. Default: the spider's name.")
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
        raise typer.Exit(how.run(plan))
    before = rows_of(how.rows_against(against, plan), key)  # it may not be there
    if code := how.run(plan):
        raise typer.Exit(code)
    diff = compare(before, rows_of(_rows(plan), key))
    if as_json:
        emit_json({"rows": diff.rows, "gone": diff.gone, "new": diff.new, "fields": diff.fields})
    else:
        _show(diff)
    raise typer.Exit(1 if diff.loses else 0)


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
                raise typer.Exit(code)
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
