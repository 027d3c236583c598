"""Who works on a job, and what they say."""

from __future__ import annotations

from skitter.frontier.sites.learned import Shared, ask_robots, store_robots
from skitter.frontier.workers import SILENCE_S, Heartbeat, beat, leave, live_workers, log, read_log


async def test_the_crew_is_whoever_was_heard_of_lately(frontier):
    now = await frontier.server_time()
    for name, at in (("a", now), ("b", now - SILENCE_S - 5), ("c", now - 1)):
        await beat(frontier, Heartbeat(name=name, host="h", pid=1, started_at=0, at=at))

    assert [one.name for one in await live_workers(frontier)] == ["a", "c"]

    await leave(frontier, "a")
    assert [one.name for one in await live_workers(frontier)] == ["c"]


async def test_the_log_is_read_from_where_one_stopped(frontier):
    for number in range(5):
        await log(frontier, "info", "w1", f"line {number}")

    first = await read_log(frontier, count=3)
    rest = await read_log(frontier, after=first[-1].id)

    assert [event.text for event in first + rest] == [f"line {n}" for n in range(5)]


async def test_robots_txt_is_claimed_by_one_and_shared_with_all(frontier):
    assert (await ask_robots(frontier, "a.test")).is_ours
    assert await ask_robots(frontier, "a.test") == Shared()

    await store_robots(frontier, "a.test", b"rules", ttl_s=60)

    shared = await ask_robots(frontier, "a.test")
    assert (shared.rules, shared.is_known, shared.is_ours) == (b"rules", True, False)
