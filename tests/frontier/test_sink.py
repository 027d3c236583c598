"""The items of a job go to one place."""

from __future__ import annotations

import asyncio

import pytest

from conftest import rude
from skitter.errors import ItemsElsewhere, JobMissing
from skitter.frontier.jobs import purge_job
from skitter.frontier.records.outputs import check_sink, claim_sink, find_sink
from skitter.frontier.workers import SILENCE_S, Heartbeat, beat
from skitter.sinks.registry import place_of


async def store_one(frontier) -> None:
    await frontier.server.command("HINCRBY", frontier.shards[0].keys.key("stats"), "stored", 1)


async def test_the_first_place_is_kept_and_may_be_claimed_again(frontier):
    assert await find_sink(frontier) == ""
    for _ in range(2):
        await claim_sink(frontier, "/x/a.db")
    assert await find_sink(frontier) == "/x/a.db"


async def test_a_place_that_has_items_is_not_replaced(frontier, clock):
    await claim_sink(frontier, "/x/a.db")
    await store_one(frontier)
    clock.advance(3600)
    with pytest.raises(ItemsElsewhere, match=r"go to /x/a\.db, which has 1") as caught:
        await claim_sink(frontier, "/x/b.csv")
    assert (caught.value.place, caught.value.stored) == ("/x/a.db", 1)
    assert await find_sink(frontier) == "/x/a.db"


async def test_a_place_that_got_nothing_is_given_up_after_a_while(frontier, clock):
    await claim_sink(frontier, "/x/a.csv")
    with pytest.raises(ItemsElsewhere, match="copy that file"):
        await claim_sink(frontier, "/x/b.csv")  # its loader may be on its way
    clock.advance(SILENCE_S + 1)
    now = await frontier.server_time()
    loader = Heartbeat(name="l", host="h", pid=1, kind="loader", started_at=now, at=now)
    await beat(frontier, loader)
    with pytest.raises(ItemsElsewhere):
        await claim_sink(frontier, "/x/b.csv")
    clock.advance(SILENCE_S + 1)
    await claim_sink(frontier, "/x/b.csv")
    assert await find_sink(frontier) == "/x/b.csv"


async def test_of_two_that_claim_at_once_one_is_refused(make_frontier):
    frontier = await make_frontier(rude())
    places = [f"/x/{n}.db" for n in range(20)]
    answers = await asyncio.gather(
        *(claim_sink(frontier, place) for place in places), return_exceptions=True
    )
    assert sum(answer is None for answer in answers) == 1
    assert places[answers.index(None)] == await find_sink(frontier)


async def test_a_place_that_was_moved_is_the_same_one(frontier):
    await claim_sink(frontier, "/old/a.db")
    await store_one(frontier)
    await claim_sink(frontier, "/new/a.db", moved_from="/old/a.db")
    assert await find_sink(frontier) == "/new/a.db"


async def test_looking_claims_nothing_and_a_purged_job_has_no_place(frontier):
    assert await check_sink(frontier, "/x/a.db") == ""
    assert await find_sink(frontier) == ""
    await purge_job(frontier)
    with pytest.raises(JobMissing):
        await claim_sink(frontier, "/x/a.db")
    assert await find_sink(frontier) == ""


async def test_a_claim_has_the_time_of_the_server_whatever_the_clock_of_the_job(frontier):
    """Else a server whose clock was set keeps a place that nobody uses, or gives up a new one."""
    shard = frontier.shards[0]
    await shard.server.command("HSET", shard.keys.key("control"), "shift", 3_600_000)

    await claim_sink(frontier, "/x/a.db")

    at = await shard.server.command("HGET", shard.keys.key("sink"), "at")
    assert int(at) == shard.clock()


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://me:pw@db:5432/items?sslmode=require", "postgresql://db/items"),
        ("postgres://db/items?password=pw", "postgresql://db/items"),
        ("mariadb://me:pw@db:3306/items?ssl=1", "mysql://db/items"),
        ("sqlite:////x/a.db", "/x/a.db"),
        ("/x/a.csv", "/x/a.csv"),
    ],
)
def test_a_place_is_known_by_more_than_one_name_and_without_a_password(dsn, place):
    assert place_of(dsn) == place
