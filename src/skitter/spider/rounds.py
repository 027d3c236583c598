"""Rounds: the seeds of a scheduled job are added again when a round is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from skitter.errors import SkitterError, SpiderError
from skitter.frontier.admin.schedule import advance, read_schedule
from skitter.frontier.wire import batched
from skitter.model import Added
from skitter.report import some
from skitter.spider.seeding import SEED_BATCH
from skitter.spider.source_line import trace

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.spider.spider import Spider


class Round(NamedTuple):
    """A round that has started."""

    due_ms: int
    seeds: int  # that were new to the frontier
    missed: int  # rounds that no process started
    is_ours: bool  # False: another process started it at the same time


async def begin_due_round(frontier: Frontier, spider: Spider) -> Round | None:
    """Start a round if one is due. Several processes may start it, or one again after a crash: its
    seeds are unique per round, so each is added once."""
    schedule = await read_schedule(frontier)
    now_ms = round(1000 * await frontier.server_time())
    if schedule is None or not schedule.is_due(now_ms):
        return None
    try:
        added = await _add_seeds(frontier, spider, mark=f"round {schedule.next_ms}")
    except SkitterError:
        raise
    except Exception as error:
        raise SpiderError(f"the seeds of {spider.name!r} failed: {trace(error)}") from error
    is_ours, missed = await advance(frontier, schedule, now_ms=now_ms)
    return Round(schedule.next_ms, added, missed, is_ours)


async def _add_seeds(frontier: Frontier, spider: Spider, *, mark: str) -> int:
    """How many were new to the frontier."""
    added = 0
    async for seeds in batched(spider.seeds(), SEED_BATCH):
        batch = [msgspec.structs.replace(one, unique=one.unique + mark) for one in seeds]
        added += (await frontier.add(batch)).count(Added.NEW)
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
