"""Rounds of a job begin when their moment has come, each once, whoever is there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from skitter.engine.stages.revisits import as_text
from skitter.errors import JobDamaged, SpiderError, UsageError
from skitter.frontier.audit.auditor import audit
from skitter.frontier.control import change_options
from skitter.frontier.jobs import open_job
from skitter.frontier.records.schedule import (
    Schedule,
    new_schedule,
    offer_again,
    read_schedule,
    remove_schedule,
    resting_pages,
    set_schedule,
)
from skitter.model import Completion, Feedback, Request, Revisit
from skitter.spider import Spider
from skitter.spider.seeding import begin_due_round, tell_round

HOUR_MS = 3_600_000
SPIDER = Spider("s", ["https://a.test/", "https://b.test/"])


@SPIDER.page
def nothing(page):
    return None


def at(*words: int) -> int:
    return round(datetime(*words, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type, misc]


async def hourly(frontier, clock) -> Schedule:
    schedule = new_schedule(every_s=3600, now_ms=clock())
    await set_schedule(frontier, schedule)
    return schedule


async def drain(frontier) -> list[str]:
    leases = (await frontier.lease(100)).leases
    await frontier.complete([Completion(lease=lease) for lease in leases])
    return sorted(lease.url for lease in leases)


async def test_seeds_go_in_again_with_each_round(frontier, clock):
    await frontier.add([seed async for seed in SPIDER.seeds()])
    assert len(await drain(frontier)) == 2
    await hourly(frontier, clock)
    assert await begin_due_round(frontier, SPIDER) is None

    for _ in range(2):
        clock.advance(3600)
        begun = await begin_due_round(frontier, SPIDER)
        assert begun
        assert (begun.seeds, begun.missed, begun.is_ours) == (2, 0, True)
        assert await begin_due_round(frontier, SPIDER) is None
        assert await drain(frontier) == ["https://a.test/", "https://b.test/"]

    stored = await read_schedule(frontier)
    assert stored
    assert (stored.rounds, stored.missed) == (2, 0)
    assert stored.next_ms == clock() + HOUR_MS
    assert (await audit(frontier)).clean


async def test_a_round_begins_once_however_many_begin_it(server, frontier, clock):
    await hourly(frontier, clock)
    clock.advance(3600)
    others = [await open_job(server, frontier.job, clock=clock) for _ in range(5)]

    begun = await asyncio.gather(*(begin_due_round(one, SPIDER) for one in others))

    assert sum(one.seeds for one in begun if one) == 2
    assert sum(one.is_ours for one in begun if one) == 1
    assert (await frontier.stats()).seen == 2
    stored = await read_schedule(frontier)
    assert stored
    assert stored.rounds == 1


async def test_rounds_that_nobody_began_are_counted_and_told(frontier, clock):
    await hourly(frontier, clock)
    clock.advance(3600 * 4.5)
    begun = await begin_due_round(frontier, SPIDER)
    assert begun
    assert (begun.seeds, begun.missed) == (2, 3)
    assert tell_round(begun) == (
        "warning",
        "a scheduled round began: 2 start URLs; 3 rounds missed while no process was running",
    )
    stored = await read_schedule(frontier)
    assert stored
    assert (stored.missed, stored.next_ms) == (3, clock() + HOUR_MS)


async def test_a_clock_that_was_ahead_does_not_hold_up_the_rounds(frontier, clock):
    await hourly(frontier, clock)
    clock.advance(365 * 86_400)  # for a moment
    assert await begin_due_round(frontier, SPIDER)
    clock.advance(-365 * 86_400)
    await drain(frontier)

    begun = await begin_due_round(frontier, SPIDER)

    assert begun
    assert begun.seeds == 2
    stored = await read_schedule(frontier)
    assert stored
    assert stored.next_ms == clock() + HOUR_MS
    assert await begin_due_round(frontier, SPIDER) is None


@pytest.mark.parametrize("back_s", [0.01, 60, 3000])
async def test_a_clock_that_is_set_back_a_little_repeats_no_round(frontier, clock, back_s):
    await hourly(frontier, clock)
    clock.advance(3600)
    assert await begin_due_round(frontier, SPIDER)
    clock.advance(-back_s)

    assert await begin_due_round(frontier, SPIDER) is None


async def test_a_schedule_can_be_removed(frontier, clock):
    await hourly(frontier, clock)
    assert await remove_schedule(frontier)
    assert not await remove_schedule(frontier)
    clock.advance(7200)
    assert await begin_due_round(frontier, SPIDER) is None


async def test_seeds_that_fail_are_told_and_tried_again(frontier, clock):
    files: list[list[str]] = []
    spider = Spider("s", lambda: iter(files.pop()))
    spider.page(print)
    await hourly(frontier, clock)
    clock.advance(3600)
    with pytest.raises(SpiderError, match="the seeds of 's' failed: IndexError"):
        await begin_due_round(frontier, spider)

    files.append(["https://a.test/"])
    begun = await begin_due_round(frontier, spider)
    assert begun
    assert (begun.seeds, begun.missed) == (1, 0)


@pytest.mark.parametrize("stored", [("next_ms", "soon"), ("every_s", "0"), ("every_s", "-1")])
async def test_a_schedule_that_makes_no_sense_is_told(frontier, stored):
    await frontier.home.command("HSET", "schedule", *stored)
    with pytest.raises(JobDamaged, match="schedule cannot be read"):
        await read_schedule(frontier)
    [problem] = (await audit(frontier)).problems
    assert problem.subject == "schedule"


def test_cron_expressions_are_in_utc():
    schedule = new_schedule(cron="30 3 * * 1", now_ms=at(2026, 11, 16, 3, 30))
    assert schedule.next_ms == at(2026, 11, 23, 3, 30)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": "61 * * * *"},
        {"cron": "often"},
        {"cron": "x" * 500},
        {"every_s": 0.1},
        {"cron": "0 3 * * *", "every_s": 60.0},
        {},
    ],
)
def test_a_mistake_is_told(wrong):
    with pytest.raises(UsageError):
        new_schedule(**wrong, now_ms=0)


async def test_pages_that_are_offered_again_while_they_are_read_hide_no_others(frontier):
    await change_options(frontier, {"revisit": True})
    pages = {f"https://a.test/{n}" for n in range(1200)}
    await frontier.add([Request(url) for url in pages])
    while leases := (await frontier.lease(500)).leases:
        await frontier.complete(
            [Completion(lease=one, feedback=rests(frontier, one)) for one in leases]
        )

    read = set()
    async for page in resting_pages(frontier):
        await offer_again(frontier, [page])
        read.add(page.url)

    assert read == pages


def rests(frontier, lease) -> Feedback:
    """It will be visited again in a minute."""
    record = as_text(frontier.offer(lease.request).arguments[-1])
    return Feedback(revisit=Revisit(after_ms=60_000, how="new", record=record))
