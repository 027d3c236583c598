"""How a crawl begins and ends, whichever engine runs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from skitter.app import Overruled, open_crawl
from skitter.crawl.reasons import dead_reasons
from skitter.crawl.replicas import explained
from skitter.errors import JobMissing, ServerUnreachable, SkitterError, SpiderError
from skitter.frontier.admin.dead import dead_letters
from skitter.frontier.admin.jobs import is_fed, open_job, purge_job
from skitter.frontier.admin.quality import find_bad
from skitter.loading import OpenSink, open_destination
from skitter.model import State, Stats
from skitter.redact import redact
from skitter.report import CrawlResult, some
from skitter.sinks import Destination, SinkBusy
from skitter.spider.seeding import offer_seeds

if TYPE_CHECKING:
    from skitter.crawl.plan import Plan
    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier

Progress = Callable[[str], None]
LAST_LOOK_S = 3.0
#: How long to wait for an output that another process is writing, and how often to retry.
LETS_GO_S, LOOK_AGAIN_S = 15.0, 0.2


@dataclass(frozen=True, slots=True)
class Crawl:
    """A job whose seeds are queued, and whose output accepts items."""

    plan: Plan
    frontier: Frontier
    out: Destination
    before: Stats
    began: float
    since_s: float  # the same moment on the server's clock
    lost: int  # items that were in a deleted file

    async def find_bad(self) -> list[str]:
        """What is wrong with the items of this crawl."""
        return await find_bad(self.frontier, self.plan.config.quality, since=self.since_s)

    async def end(self, *, over: bool, interrupted: bool, bad: Sequence[str] = ()) -> CrawlResult:
        """The outcome. `bad`: why it was paused, if it was. Raises ServerUnreachable."""
        frontier, stats = self.frontier, await _last_look(self.frontier)
        return CrawlResult(
            self.before,
            stats,
            time.monotonic() - self.began,
            over=(over or stats.finished) and stats.state is not State.CANCELLED,
            interrupted=interrupted,
            max_pages=frontier.options.limits.max_pages,
            why_dead="" if stats.done else await _first_dead(frontier),
            lost=self.lost,
            dead_reasons=await dead_reasons(frontier) if stats.dead else {},
            bad=list(bad) or await self.find_bad(),
            on_bad=self.plan.config.quality.on_bad,
        )


async def begin(server: Server, plan: Plan, progress: Progress) -> Crawl:
    """Open the job and the output, and add the seeds."""
    began = time.monotonic()
    out = Destination(plan.out, plan.job, plan.where.directory)
    is_new = plan.fresh or not await _exists(server, plan.job)
    if is_new:
        if plan.has_no_start and (plan.fresh or not await is_fed(server, plan.job)):
            raise _nothing_to_fetch(plan)
        await _try(out.open, progress)  # fail before a crawl is discarded or a job created
    frontier = await open_plan(server, plan, progress)
    before = await frontier.stats()
    lost = before.stored if out.is_missing else 0
    await _try(partial(open_destination, frontier, out), progress)
    if lost:
        gone = f"{redact(out.store)} is gone, and {some(lost, 'item')} with it"
        progress(f"{gone}: --fresh crawls again.")
    async with _taken_back(frontier, is_new=is_new):
        with explained(plan.job):
            private = await offer_seeds(frontier, plan.spider)
        plan = replace(plan, allow=(*plan.allow, *private))
        _check_begun(plan, now := await frontier.stats())
    if plan.left_to_others:
        progress(plan.left_to_others)
    if before.crawled and now.crawled:
        progress(f"{frontier.job} {_why_idle(now, frontier.job)}")
    return Crawl(plan, frontier, out, before, began, await frontier.server_time(), lost)


def _why_idle(now: Stats, job: str) -> str:
    if now.remaining:
        return "has reached its max_pages: a larger --max-pages, or none, continues it."
    if now.revisits:
        return f"is finished, and none of its {some(now.revisits, 'page')} to revisit is due yet."
    again = f"; `skitter dead retry {job} --all` queues its dead letters again" if now.dead else ""
    return f"is finished, and its start URLs are not new: --fresh starts over{again}."


async def open_plan(server: Server, plan: Plan, progress: Progress) -> Frontier:
    """The job, as configured. Reports where an operator's settings differ, and which win."""
    before = None
    if plan.fresh:
        with suppress(JobMissing):
            old = await open_job(server, plan.job, as_found=True)
            before = old.layout
            await purge_job(old)
    frontier, overruled = await open_crawl(server, plan.job, plan.spider, plan.config, like=before)
    for line in _explain(plan.job, overruled):
        progress(line)
    return frontier


def _explain(job: str, overruled: list[Overruled]) -> Iterator[str]:
    def shown(value: object) -> object:
        return "none" if value is None else value

    kept = [one for one in overruled if not one.flag_wins]
    if kept:
        values = ", ".join(
            f"{one.option.name}={shown(one.set_by_operator)} (not {shown(one.configured)})"
            for one in kept
        )
        flags = " or ".join(one.option.flag for one in kept)
        yield f"{job} keeps what `skitter set` changed: {values}. {flags} overrides that."
    for one in overruled:
        if one.flag_wins:
            before = f"{one.option.name}={shown(one.set_by_operator)}"
            yield f"{one.option.flag} replaces {before}, which `skitter set` had set."


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
    async for letter in dead_letters(frontier):
        return f"{letter.url}: {letter.reason}"
    return ""
