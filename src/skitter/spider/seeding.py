"""The seeds of a spider: added once, or again in each round."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skitter.errors import QueueFull, SkitterError, SpiderError
from skitter.fetch.http.guard import authority_of, refusal_of_name
from skitter.frontier.feed import feed
from skitter.frontier.records.schedule import advance, offer_round, read_schedule
from skitter.frontier.transport.messages import batched
from skitter.model import Added
from skitter.observe.report import some
from skitter.spider.source import trace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.frontier.frontier import Frontier
    from skitter.model import Request
    from skitter.spider.spider import Spider


SEED_BATCH = 1000


async def offer_seeds(frontier: Frontier, spider: Spider) -> set[str]:
    """Offer the seeds; a resumed crawl already knows them. Returns the private hosts among them: a
    seed allows its own host, and workers do not see what a generator yields."""
    batch = []
    private: set[str] = set()
    try:
        async for seed in spider.seeds():
            batch.append(frontier.offer(seed))
            authority = authority_of(seed.url)
            if refusal_of_name(authority.name):
                private.add(authority.host_port)
            if len(batch) >= SEED_BATCH:
                await feed(frontier, batch, wait=True)
                batch = []
    except SkitterError:
        raise
    except Exception as error:
        raise SpiderError(f"the seeds of {spider.name!r} failed: {trace(error)}") from error
    await feed(frontier, batch, wait=True)
    return private


class Round(NamedTuple):
    """A round that has started: the seeds of a scheduled job are visited again."""

    due_ms: int
    seeds: int  # that are to be visited now
    missed: int  # rounds that no process started
    is_ours: bool  # False: another process started it at the same time


async def begin_due_round(frontier: Frontier, spider: Spider) -> Round | None:
    """Start a round if one is due. Several processes may start it, or one again after a crash: the
    frontier takes each seed once in a round."""
    schedule = await read_schedule(frontier)
    now_ms = round(1000 * await frontier.server_time())
    if schedule is None or not schedule.is_due(now_ms):
        return None
    try:
        added = await visit_again(frontier, spider.seeds(), due_ms=schedule.next_ms)
    except SkitterError:
        raise
    except Exception as error:
        raise SpiderError(f"the seeds of {spider.name!r} failed: {trace(error)}") from error
    is_ours, missed = await advance(frontier, schedule, now_ms=now_ms)
    return Round(schedule.next_ms, added, missed, is_ours)


async def visit_again(frontier: Frontier, pages: AsyncIterator[Request], *, due_ms: int) -> int:
    """How many are to be visited now; the others still are from the round before."""
    added = 0
    async for some_pages in batched(pages, SEED_BATCH):
        said = await offer_round(frontier, some_pages, due_ms=due_ms)
        added += said.count(Added.NEW)
        if Added.FULL in said:  # repeated later, it goes on from here
            limit = frontier.options.limits.max_pending or 0
            raise QueueFull(frontier.job, max_pending=limit, added=added)
    return added


def tell_round(begun: Round) -> tuple[str, str]:
    """Level and text for the log. Processes that start it at the same time share its seeds."""
    if not begun.is_ours:
        return (
            "debug",
            f"another process began a scheduled round: we added {begun.seeds} start URLs",
        )
    text = f"a scheduled round began: {some(begun.seeds, 'start URL')}"
    if begun.missed:
        return (
            "warning",
            f"{text}; {some(begun.missed, 'round')} missed while no process was running",
        )
    return "info", text
