"""The record of the last requests, for the audit of politeness."""

from __future__ import annotations

import pytest

from lua.conftest import HOST


@pytest.fixture
async def polite(make_raw):
    raw = await make_raw(delay_s=1, max_in_flight=2)
    await raw.add("1", "2", "3")
    return raw


async def test_a_request_that_is_over_is_recorded_with_the_moment_it_was_told(polite, clock):
    trips = [f"{HOST} {clock() - 700} 500 90 1000 https://a.test/x y", "b.test 1 2 3 4 /robots.txt"]

    assert await polite.shard.call("record", trips) == 2

    assert await polite.read("trips") == [f"{clock()} {trip}" for trip in trips]


async def test_of_a_lease_that_ran_out_the_turn_is_recorded(polite, clock):
    turn = clock()
    await polite.lease(1, ttl_ms=500)
    clock.advance(1)

    await polite.reap()

    assert await polite.read("trips") == [f"{clock()} a.test {turn} 0 -1 1000 "]


async def test_the_record_is_bounded(polite):
    for _ in range(11):
        await polite.shard.call("record", [f"{HOST} 1 0 1 1 x"] * 1000)

    assert len(await polite.read("trips")) == 10_000


async def test_of_hosts_without_a_delay_nothing_is_recorded(make_raw, clock):
    raw = await make_raw(delay_s=0)
    await raw.add("1")
    await raw.lease(1, ttl_ms=500)
    clock.advance(1)

    await raw.reap()

    assert await raw.read("trips") == []
