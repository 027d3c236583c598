"""Rounds: the seeds of a scheduled job go in again when their moment has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from skitter.frontier.admin.schedule import advance, read_schedule
from skitter.model import Added
from skitter.report import some
from skitter.spider.seeding import SEED_BATCH

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.model import Request
    from skitter.spider.spider import Spider


class Round(NamedTuple):
    """One that has begun."""

    due_ms: int
    seeds: int  # that were new to the frontier
    missed: int  # rounds that nobody began
    is_ours: bool  # another process did not begin it at the same time


async def begin_due_round(frontier: Frontier, spider: Spider) -> Round | None:
    """Begin the round that is due, if one is. It may be begun by many processes, and again after a
    crash: what sets its seeds apart is the round, so that each goes in once."""
    schedule = await read_schedule(frontier)
    now_ms = round(1000 * await frontier.server_time())
    if schedule is None or schedule.next_ms > now_ms:
        return None
    added = 0
    batch: list[Request] = []
    async for seed in spider.seeds():
        mark = f"{seed.unique}round {schedule.next_ms}"
        batch.append(msgspec.structs.replace(seed, unique=mark))
        if len(batch) >= SEED_BATCH:
            added += (await frontier.add(batch)).count(Added.NEW)
            batch = []
    added += (await frontier.add(batch)).count(Added.NEW)
    is_ours, missed = await advance(frontier, schedule, now_ms=now_ms)
    return Round(schedule.next_ms, added, missed, is_ours)


def tell_round(begun: Round) -> tuple[str, str]:
    """Level and text for the log."""
    text = f"a round of the schedule began: {some(begun.seeds, 'start URL')}"
    if begun.missed:
        return (
            "warning",
            f"{text}; {some(begun.missed, 'round')} passed while nobody was there",
        )
    return "info", text
