"""Handlers on pages once more: replay, redo."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import uvloop

from skitter.archive.diff import compare, rows_of
from skitter.archive.index import Archive
from skitter.archive.playback import SUFFIX
from skitter.cli.commands.pages.archive import warn_of_damage
from skitter.cli.common import Arguments, Directory, Json, Redis, on_job, pairs_of
from skitter.cli.crawl import Target, plan_of
from skitter.cli.flags import CRAWLING, Given, with_flags
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.running import run_plan
from skitter.cli.show.changed_rows import show_diff, show_left_out
from skitter.cli.show.output import emit_json, print_progress, say
from skitter.crawl.plan import Plan
from skitter.crawl.redo import Redo, Redone
from skitter.crawl.replay import SETTINGS, replayed
from skitter.crawl.script import Items, items, read_items
from skitter.errors import UsageError
from skitter.frontier.dead import Filter, dead_kinds
from skitter.frontier.frontier import Frontier
from skitter.model import Request
from skitter.observe.report import some
from skitter.settings import JobOptions, resolve
from skitter.settings.sources import FLAGGED
from skitter.sinks import BadSink, Destination, main_first
from skitter.sinks.registry import find_type
from skitter.spider.named_files import as_yielded

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLAYING = tuple(option for option in FLAGGED if option.table in ("workers", "output", "log"))


@with_flags(REPLAYING, settable=True)
def replay(
    target: Target,
    folder: Annotated[Path, Option("--from", help="The folder of the archive.")] = Path("archive"),
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
        Option("--key", help="Match the rows of a page by this field, not by position."),
    ] = None,
    job: Annotated[
        str | None, Option("--job", help="Pages of this job. Default: the spider's name.")
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
    stored = how.rows_against(against, plan)  # it may not be there
    before = list(how.of_kept_pages(stored))
    if code := how.run(plan):
        raise Exit(code)
    diff = compare(rows_of(as_yielded(before), key), rows_of(as_yielded(_rows(plan)), key))
    missing, failed = len(stored) - len(before), on_job(plan.where, plan.job, dead_kinds)
    if as_json:
        found = {"rows": diff.rows, "gone": diff.gone, "new": diff.new, "fields": diff.fields}
        emit_json({**found, "not_kept": missing, "failed": failed})
    else:
        show_diff(diff)
        show_left_out(missing, failed, plan.job)
    raise Exit(1 if diff.loses else 0)


class _Replay:
    """Replays spiders on one archive, alike."""

    def __init__(
        self, archive: Archive, job: str | None, arguments: dict[str, Any], given: Given
    ) -> None:
        self.archive, self.job, self.arguments = archive, job or "", arguments
        jobs = {response.job for response in archive.responses()}
        if job and jobs and not jobs & {job, ""}:
            has = ", ".join(sorted(jobs))
            raise UsageError(f"{archive.folder} has no page of {job!r}: it has those of {has}.")
        self.given = SETTINGS | {"archive.folder": archive.folder} | given

    def plan(self, target: str, out: str | None = None) -> Plan:
        plan = plan_of(target, self.arguments, None, self.given)
        # The other spider is compared on the same pages, whatever its name is.
        job = self.job = self.job or plan.spider.name
        name = f"{job}{SUFFIX}"
        # Not the output of skitter.toml, which has the rows of the crawl.
        named = self.given.get("output.to") or (f"{name}.db",)
        place, *also = [out] if out else main_first(named)
        plan = replace(plan, job=name, out=place, also=tuple(also))
        plan, homeless = replayed(plan, self.archive, job=job)
        if homeless:
            print_progress(f"{some(homeless, 'page')} had handlers that {target} does not have.")
        return plan

    def run(self, plan: Plan) -> int:
        return uvloop.run(run_plan(plan))

    def of_kept_pages(self, rows: Items) -> Iterator[dict[str, Any]]:
        """A crawl may have kept only some of its pages."""
        archive = self.archive.within(self.job)
        urls = {kept.url for kept in archive}
        for row in rows:
            if row["_url"] in urls or archive.visits(Request(url=row["_url"])):
                yield row

    def rows_against(self, other: str, plan: Plan) -> Items:
        """The rows of another spider on the same pages, or those that were stored."""
        if not other.partition(":")[0].endswith(".py"):
            return _stored(other, plan)
        with tempfile.TemporaryDirectory() as folder:
            old = replace(
                self.plan(other, out=str(Path(folder, "before.db"))),
                quiet=True,
                as_json=plan.as_json,
            )
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
        hint = "--against takes the output of its crawl, a job, or a spider's file."
        raise UsageError(f"{out} has no rows of {job}: {hint}")
    return read_items(destination)


def _rows(plan: Plan) -> Items:
    return read_items(Destination(plan.out, plan.job, plan.where.directory))


@with_flags(CRAWLING, settable=True)
def redo(
    target: Annotated[
        str,
        Argument(metavar="SPIDER|JOB", help="The spider, or the job if others crawl for it."),
    ],
    handler: Annotated[str | None, Option("--handler", help="Only pages of this handler.")] = None,
    rejected: Annotated[bool, Option("--rejected", help="Only pages with rejected items.")] = False,
    reason: Annotated[
        str | None,
        Option("--reason", help="Only pages with items rejected for this reason, or part of it."),
    ] = None,
    match: Annotated[
        str | None,
        Option("--match", help="Only URLs that contain this text, or match it with * and ?."),
    ] = None,
    job: Annotated[str | None, Option("--job", help="The job. Default: the spider's name.")] = None,
    arguments: Arguments = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Handle pages again, with the spider as it is now.

    Pages come from the archive, and are fetched again where it does not have them. Rows are
    updated in place. `skitter run` continues it if it is interrupted.
    """
    is_spider = ":" in target or target.endswith(".py")
    plan = plan_of(target, pairs_of(arguments), job, given, as_json=as_json) if is_spider else None
    config = plan.config if plan else resolve(given, job=job or target)
    if plan and handler and handler not in plan.spider.handlers:
        known = ", ".join(sorted(plan.spider.handlers))
        raise UsageError(f"{target} has no handler {handler!r}: it has {known}.")
    archive = Archive.open(config.archive.folder) if config.archive.folder.is_dir() else None
    if archive:
        warn_of_damage(archive)

    async def mark(frontier: Frontier) -> tuple[Redone, JobOptions]:
        spider = plan.spider if plan else None
        which, is_rejected = Filter(url=match, reason=reason), rejected or reason is not None
        redo = Redo(frontier, archive, spider, which, handler, is_rejected)
        return await redo.mark(), frontier.options

    name = plan.job if plan else job or target
    did, options = on_job(config.server, name, mark)
    print_progress(_marked(did, name))
    if handler and not plan:
        print_progress(
            "Without the pages of the spider's default handler, whose requests do not name it: "
            f"`skitter redo SPIDER.py --handler {handler}` knows them."
        )
    if plan is None:
        emit_json(did) if as_json else say(f"{name}: {some(did.pages, 'page')} pending again.")
    if plan and did.pages:  # without the flags of its run: it keeps its limits and its revisits
        raise Exit(uvloop.run(run_plan(replace(plan, config=config.of_job(options)))))


def _marked(did: Redone, job: str) -> str:
    """What is handled again, in a sentence; and what is not."""
    if not did.pages and not did.left:
        return (
            f"{job} has no such page, in the archive or with rejected items: `run --archive` keeps "
            f"pages, `run --fresh` crawls them again, `dead retry {job}` tries those that failed."
        )
    how = f"{did.archived:,} from the archive, {did.fetched:,} to be fetched"
    said = f"{job}: {some(did.pages, 'page')} to be handled again ({how})."
    if did.left:
        said += f" {did.left:,} more are in the queue already, or not in this crawl."
    if did.unknown:
        said += (
            f" Left out: {some(did.unknown, 'page')} with rejected items, as their requests were "
            "not kept. `run --fresh` crawls them again."
        )
    return said
