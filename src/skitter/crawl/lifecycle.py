"""How a crawl begins and ends, whichever engine runs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace as structs_replace

from skitter.app import Overruled, differences, obeyed_now, open_crawl, spelled
from skitter.crawl.findings import Yields, dead_reasons, describe_idle, describe_unmatched, vanished
from skitter.crawl.outputs import main_of, name_outputs, open_destination, open_further
from skitter.crawl.plan import check_hosts
from skitter.crawl.replicas import explained
from skitter.engine.parts import page_cache_of
from skitter.errors import JobMissing, ServerUnreachable, SkitterError, SpiderError
from skitter.frontier.dead import unfetched
from skitter.frontier.jobs import is_fed, open_job, purge_job
from skitter.frontier.records.archived import downloads_of
from skitter.frontier.records.health import find_bad, read_handled
from skitter.frontier.records.metrics import read_counts
from skitter.frontier.records.outputs import FILLING, backlogs, find_sink
from skitter.frontier.sites.learned import held_shapes, unhandled
from skitter.model import State, Stats
from skitter.observe.metrics import ARCHIVED
from skitter.observe.report import CrawlResult, Written, duration, some
from skitter.redact import redact, shown
from skitter.sinks import Destination, SinkAway, SinkBusy
from skitter.spider.seeding import offer_seeds
from skitter.spider.source import wants_items

if TYPE_CHECKING:
    from collections import Counter

    from skitter.archive.playback import PageCache
    from skitter.crawl.outputs import OpenSink
    from skitter.crawl.plan import Plan
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.records.outputs import Backlog
    from skitter.frontier.transport.connection import Server
    from skitter.settings import Layout

Progress = Callable[[str], None]
LAST_LOOK_S = 3.0
#: How long to wait for an output that another process is writing, and how often to retry.
LETS_GO_S, LOOK_AGAIN_S = 15.0, 0.2


@dataclass(frozen=True, slots=True)
class Crawl:
    """A job whose seeds are queued, and whose output accepts items."""

    plan: Plan
    frontier: Frontier
    outs: list[Destination]  # the main one first
    before: Stats
    began: float
    since_s: float  # the same moment on the server's clock
    lost: int  # items that were in a deleted file
    handled_before: Counter[str]  # frontier/records/health.py
    counted_before: Mapping[str, int]  # frontier/records/metrics.py

    @property
    def out(self) -> Destination:
        """The main output."""
        return self.outs[0]

    async def find_bad(self) -> list[str]:
        """What is wrong with the items of this crawl."""
        return await find_bad(self.frontier, self.plan.config.quality, since=self.since_s)

    async def yields(self) -> Yields:
        """What handlers have done since it began."""
        return Yields.between(self.handled_before, await read_handled(self.frontier))

    async def _archived(self) -> dict[str, int]:
        now, before = await read_counts(self.frontier), self.counted_before
        return {name: now.get(name, 0) - before.get(name, 0) for name in ARCHIVED}

    async def end(
        self, *, over: bool, interrupted: bool, bad: Sequence[str] = (), stopped_for: str = ""
    ) -> CrawlResult:
        """The outcome. `bad`, `stopped_for`: why it was paused or stopped, if it was. Raises
        ServerUnreachable."""
        frontier, stats = self.frontier, await _last_look(self.frontier)
        if (archive := self.plan.worker.archive).is_on:
            from skitter.engine.keeping import settle  # an extra

            await settle(frontier, archive.folder)
        yields, downloads = await self.yields(), await downloads_of(frontier)
        limits = frontier.options.limits
        return CrawlResult(
            self.before,
            stats,
            time.monotonic() - self.began,
            over=(over or stats.finished) and stats.state is not State.CANCELLED,
            interrupted=interrupted,
            stopped_for=stopped_for,
            max_pages=limits.max_pages,
            why_dead="" if stats.done else await _first_dead(frontier),
            lost=self.lost,
            dead_reasons=await dead_reasons(frontier) if stats.dead else {},
            downloads=downloads.files,
            archived=await self._archived() if archive.is_on else {},
            downloaded_bytes=downloads.bytes,
            vanished=await vanished(frontier, since_s=self.since_s) if stats.dead else [],
            bad=list(bad) or await self.find_bad(),
            on_bad=self.plan.config.quality.on_bad,
            idle=list(describe_idle(self.plan.spider, yields)),
            unmatched=list(describe_unmatched(yields)),
            empty=self._is_empty(stats, yields),
            on_empty=self.plan.config.quality.on_empty,
            # While others are left, these only wait for their turn.
            held={} if stats.remaining or stats.looks else await held_shapes(frontier),
            unhandled=await unhandled(frontier) if stats.unhandled else {},
            shape_budget=limits.shape_budget,
        )

    async def put_away(self) -> AsyncIterator[str]:
        """Copy what killed workers have left of an archive. What cannot be done now."""
        archive = self.plan.worker.archive
        if not archive.is_on:
            return
        from skitter.archive.store import Store  # an extra
        from skitter.engine.keeping import copy_out, settle, unlisted

        if not await settle(self.frontier, archive.folder):
            left = await unlisted(self.frontier, archive.folder)
            yield (
                f"the index in {archive.folder} cannot be written, so it lacks "
                f"{some(left, 'page')}: a later run adds them once there is space"
            )
        if archive.store and (why := await copy_out(Store(archive.store), archive.folder)):
            yield f"{why.rstrip('.')}. Once it is there: skitter archive push"

    def _is_empty(self, stats: Stats, yields: Yields) -> bool:
        """Whether pages were handled, in this run or before, none is left, and the job has no item
        at all though its spider yields some. (Rejected ones are reported as such.)"""
        has_items = stats.stored + stats.items + stats.rejected
        is_done = stats.crawled and not stats.remaining and yields.has_pages
        return is_done and not has_items and wants_items(self.plan.spider)


async def begin(server: Server, plan: Plan, progress: Progress) -> Crawl:
    """Open the job and the output, and add the seeds."""
    began = time.monotonic()
    if pages := page_cache_of(plan.worker):
        progress(_cached(pages))
    outs = outputs_of(plan)
    is_new = plan.fresh or not await _exists(server, plan.job)
    if is_new:
        if plan.has_no_start and (plan.fresh or not await is_fed(server, plan.job)):
            raise _nothing_to_fetch(plan)
        await check_hosts(plan, progress)  # fail before a crawl is discarded or a job created
        await _try_outputs(outs, progress, discards=plan.fresh)
    frontier = await open_plan(server, plan, progress)
    before = await frontier.stats()
    outs, lost = await _open_outputs(frontier, outs, before, progress)
    async with _taken_back(frontier, is_new=is_new):
        with explained(plan.job):
            private = await offer_seeds(frontier, plan.spider)
        plan = plan.allowing(private)
        _check_begun(plan, now := await frontier.stats())
    if plan.left_to_others:
        progress(plan.left_to_others)
    if before.crawled and now.crawled:
        progress(f"{frontier.job} {_why_idle(now, plan.target, keep_alive=plan.keep_alive)}")
    since_s, handled = await frontier.server_time(), await read_handled(frontier)
    counted = await read_counts(frontier)
    return Crawl(plan, frontier, outs, before, began, since_s, lost, handled, counted)


def outputs_of(plan: Plan) -> list[Destination]:
    """As the user named them."""
    named, directory = (plan.out, *plan.also), plan.where.directory
    return [Destination(dsn, plan.job, directory) for dsn in named]


async def _try_outputs(outs: Sequence[Destination], progress: Progress, *, discards: bool) -> None:
    for out in outs:
        rows = 0 if discards else await out.count()
        await _try(out.open, progress)
        if rows:
            progress(
                f"{shown(out.store)} has {some(rows, 'row')} of an earlier crawl: they stay, and a "
                "page that is crawled again replaces its own. --fresh starts without them."
            )


async def _open_outputs(
    frontier: Frontier, outs: Sequence[Destination], before: Stats, progress: Progress
) -> tuple[list[Destination], int]:
    """Fail now, instead of in a loader that keeps dying; but a further output may be away. Returns
    them, the main one first, and how many items were in a file that is gone."""
    main = main_of(outs, await find_sink(frontier)) or outs[0]
    prunes = frontier.options.visits.revisit_prune
    lost = before.stored if main.is_missing else 0
    # With `prunes`, pages may be gone, and their rows.
    is_emptied = before.stored > lost and not prunes and await main.count() == 0
    await _try(partial(open_destination, frontier, main), progress)
    if lost:
        gone = f"{shown(main.store)} is gone, and {some(lost, 'item')} with it"
        progress(f"{gone}: --fresh crawls again.")
    if is_emptied:
        stored = some(before.stored, "item")
        progress(
            f"{shown(main.store)} has no row, though {stored} went there: --fresh crawls again."
        )
    await name_outputs(frontier, outs, progress)
    others = [out for out in outs if out is not main]
    for other in others:
        try:
            await _try(partial(open_further, frontier, other, main), progress)
        except SinkAway as away:
            progress(f"{str(away).rstrip('.')}: what is for it waits on the server.")
    for line in _about_revisits(before, frontier, outs):
        progress(line)
    return [main, *others], lost


def _about_revisits(
    before: Stats, frontier: Frontier, outs: Sequence[Destination]
) -> Iterator[str]:
    visits = frontier.options.visits
    for out in outs:
        if visits.revisit_prune and out.only_grows:
            yield (
                f"{shown(out.store)} keeps rows that pages no longer yield: --revisit-prune needs "
                "a database, or a CSV or Parquet file."
            )
    unplanned = before.done - before.revisits
    if visits.revisit and unplanned > 0:
        were = "page was" if unplanned == 1 else "pages were"
        yield (
            f"{unplanned:,} {were} done by {frontier.job} without --revisit, and will not be "
            "visited again: --fresh --keep-rows crawls all anew."
        )
    if before.revisits and not visits.revisit:
        yield (
            f"{frontier.job} has {some(before.revisits, 'page')} to revisit: without --revisit "
            "they rest, and pages of this run are not visited again."
        )


def _cached(pages: PageCache) -> str:
    if count := pages.count():
        return f"--cache: {some(count, 'page')} of {pages.folder} will not be fetched."
    return f"--cache: {pages.folder} has no page yet; those that are fetched are kept there."


def _why_idle(now: Stats, target: str, *, keep_alive: bool) -> str:
    if now.remaining:
        return "has reached its max_pages: a larger --max-pages, or none, continues it."
    if keep_alive:
        return "has nothing to fetch now: it waits for new URLs, revisits and scheduled rounds."
    if now.revisits:
        when = f", the next one in {duration(now.next_visit_s)}" if now.next_visit_s else ""
        none = f"none of the {some(now.revisits, 'page')} to revisit is due yet"
        return f"is finished, and {none}{when}."
    again = f"; `skitter dead retry {now.job} --all` queues its dead letters again" * bool(now.dead)
    redo = f", `skitter redo {target}` handles its pages again" * bool(target)
    idle = f"is finished, and its start URLs are not new: --fresh starts over{redo}{again}."
    # Pages that are done do not offer their links again.
    causes = {"pattern": "exclude or include", "drain": "drain"}
    by = " or ".join(name for kind, name in causes.items() if kind in now.kept_out)
    return f"{idle} Links that {by} refused are found again only with --fresh." if by else idle


async def open_plan(server: Server, plan: Plan, progress: Progress) -> Frontier:
    """The job, as configured. Reports where an operator's settings differ, and which win."""
    before = await _discard(server, plan, progress) if plan.fresh else None
    was = await obeyed_now(server, plan.job)
    frontier, overruled = await open_crawl(server, plan.job, plan.spider, plan.config, like=before)
    for line in _explain(plan.job, overruled):
        progress(line)
    if plan.spider.hooks.joined and (line := await plan.spider.hooks.joined(frontier)):
        progress(line)
    if was and (changed := ", ".join(differences(was, frontier.options))):
        progress(f"{plan.job} is being crawled already, and all its workers now obey {changed}.")
    return frontier


async def _discard(server: Server, plan: Plan, progress: Progress) -> Layout | None:
    """Remove the earlier crawl with its rows; returns its layout. Safe to interrupt: until all is
    gone the job is half purged, so that no crawl goes on with the rest."""

    async def clear() -> None:
        for out in () if plan.keep_rows else outputs_of(plan):
            gone = await out.clear()
            if gone is None:
                progress(f"the rows in {shown(out.store)} stay: Skitter cannot remove any there.")
            elif gone:
                progress(f"{some(gone, 'row')} removed from {shown(out.store)}.")

    try:
        old = await open_job(server, plan.job, as_found=True)
    except JobMissing:  # its rows may still be there
        await clear()
        return None
    await purge_job(old, meanwhile=clear)
    return old.layout


async def what_fresh_discards(server: Server, plan: Plan) -> str:
    """In words; empty: nothing."""
    outs = {} if plan.keep_rows else {output.place: output for output in outputs_of(plan)}
    lost = []
    with suppress(JobMissing):
        frontier = await open_job(server, plan.job, as_found=True)
        lost.append("the earlier crawl" + await _pages_of(frontier))
    for out in outs.values():
        if (rows := await out.count()) is None or rows:
            what = "its rows" if rows is None else some(rows, "row")
            lost.append(f"{what} in {shown(out.store)}")
    return " and ".join(lost)


async def _pages_of(frontier: Frontier) -> str:
    with suppress(SkitterError):  # half purged
        return f" of {some((await frontier.stats()).seen, 'URL')}"
    return ""


async def write_output(out: Destination) -> Written:
    """The output at the end of a crawl; a file that is written in one go is written now."""
    rows = await out.finish() if out.is_whole else await out.count()
    return Written(redact(out.dsn), rows, store=shown(out.store) if out.is_whole else None)


async def write_outputs(
    crawl: Crawl, write: Callable[[Destination], Awaitable[Written]] = write_output
) -> list[Written]:
    """All of them, the main one first, and what each lacks."""
    lacking = {backlog.place: _lacks(backlog) for backlog in await backlogs(crawl.frontier)}
    written = [(await write(out), lacking.get(out.place, "")) for out in crawl.outs]
    return [structs_replace(output, lacks=lacks) for output, lacks in written]


def _lacks(backlog: Backlog) -> str:
    if backlog.state == FILLING:
        return "it lacks what was stored before: the next run adds it"
    waiting = f"{some(backlog.items, 'item')} {'waits' if backlog.items == 1 else 'wait'} for it"
    return waiting if backlog.items else ""


def _explain(job: str, overruled: list[Overruled]) -> Iterator[str]:
    kept = [setting for setting in overruled if not setting.flag_wins]
    if kept:
        values = ", ".join(
            f"{setting.option.name}={spelled(setting.set_by_operator)} "
            f"(not {spelled(setting.configured)})"
            for setting in kept
        )
        flags = " or ".join(setting.option.flag for setting in kept)
        yield f"{job} keeps what `skitter set` changed: {values}. {flags} overrides that."
    for setting in overruled:
        if setting.flag_wins:
            before = f"{setting.option.name}={spelled(setting.set_by_operator)}"
            yield f"{setting.option.flag} replaces {before}, which `skitter set` had set."


async def _exists(server: Server, job: str) -> bool:
    try:
        return bool(await open_job(server, job, as_found=True))
    except JobMissing:
        return False


async def _try(open_sink: OpenSink, progress: Progress) -> None:
    """Fail now if the output takes no items, instead of in a loader that keeps dying. The loader of
    a crawl that was just killed needs a moment to notice."""
    give_up_at, announced = time.monotonic() + LETS_GO_S, False
    while True:
        try:
            async with open_sink():
                return
        except SinkBusy as busy:
            if time.monotonic() > give_up_at:
                raise
            if not announced:
                progress(f"{str(busy).partition(':')[0]}: waiting for it to end.")
            announced = True
        await asyncio.sleep(LOOK_AGAIN_S)


@asynccontextmanager
async def _taken_back(frontier: Frontier, *, is_new: bool) -> AsyncIterator[None]:
    """A new job without a URL is removed again if its spider's seeds are refused."""
    try:
        yield
    except SkitterError:
        if is_new:
            with suppress(SkitterError):  # the reason is what the user must see
                stats = await frontier.stats()
                if not stats.seen and not stats.fed:
                    await purge_job(frontier)
        raise


def _check_begun(plan: Plan, stats: Stats) -> None:
    if not (stats.seen or stats.fed or plan.keep_alive):
        raise _nothing_to_fetch(plan)


def _nothing_to_fetch(plan: Plan) -> SpiderError:
    return SpiderError(
        f"spider {plan.spider.name!r} has no start URL, so there is nothing to fetch: give it one, "
        f"or `skitter push {plan.job} URL`; --keep-alive waits for what is pushed later."
    )


async def _last_look(frontier: Frontier) -> Stats:
    """With a timeout: a user is waiting, who may have pressed Ctrl-C because of the server."""
    try:
        async with asyncio.timeout(LAST_LOOK_S):
            return await frontier.stats()
    except TimeoutError:
        raise ServerUnreachable(
            "stopped; the server does not answer, so what is left is unknown: run it "
            "again to continue."
        ) from None


async def _first_dead(frontier: Frontier) -> str:
    async for letter in unfetched(frontier):
        return f"{letter.url}: {letter.reason}"
    return ""
