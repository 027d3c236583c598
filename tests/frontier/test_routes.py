"""What the fleet keeps about routes: places, budgets, rests, and what it has learned."""

from __future__ import annotations

import asyncio
from itertools import count

import msgspec
import pytest

from skitter.engine.proxies.bandit import Arms
from skitter.frontier.sites.sessions import FREE, Cost, FleetRoutes, RouteLimits, Settled

_places = count()


@pytest.fixture
def fleet(server, clock) -> FleetRoutes:
    return FleetRoutes.on(server, clock=clock)


def settled(route: str, verdict, **fields) -> Settled:
    return Settled(route=route, domain=f"{route}.example", verdict=verdict, **fields)


async def take(fleet: FleetRoutes, route, limits, reserve=FREE, place="") -> int:
    place = place or f"place-{next(_places)}"
    return await fleet.take(place, route, limits, reserve, ttl_s=60)


async def test_a_budget_of_requests_is_exact_for_many_clients(server, job):
    fleets = [FleetRoutes.on(server) for _ in range(4)]
    limits = RouteLimits(requests=25)

    async def work(fleet) -> int:
        granted = 0
        for number in range(20):
            place = f"{job}-{id(fleet)}-{number}"
            if await take(fleet, job, limits, place=place) == 0:
                granted += 1
                await fleet.settle([settled(job, "good", place=place)])
        return granted

    assert sum(await asyncio.gather(*map(work, fleets))) == 25
    assert (await fleets[0].settle()).routes[job]["sent"] == 25


async def test_what_was_reserved_and_not_used_is_given_back(fleet, job):
    limits, reserve = RouteLimits(bytes=1000, money=500), Cost(400, 100)
    assert [await take(fleet, job, limits, reserve, place=f"{job}-{n}") for n in (1, 2)] == [0, 0]
    assert await take(fleet, job, limits, reserve) > 0  # those two may leave something
    used = settled(job, "good", place=f"{job}-1", cost=Cost(100, 30), reserved=reserve)
    unused = settled(job, "unused", place=f"{job}-2", reserved=reserve)
    counts = (await fleet.settle([used, unused])).routes[job]
    assert (counts["sent"], counts["bytes"], counts["money"]) == (1, 100, 30)
    assert await take(fleet, job, limits, reserve) == 0


async def test_a_budget_that_is_spent_says_so(fleet, job):
    assert await take(fleet, job, RouteLimits(money=99), Cost(0, 100)) == -1


async def test_a_place_of_a_worker_that_died_stays_counted(fleet, job, clock):
    limits = RouteLimits(in_flight=1, requests=2)
    assert await take(fleet, job, limits) == 0
    assert await take(fleet, job, limits) > 0
    clock.advance(61)
    assert await take(fleet, job, limits) == 0
    clock.advance(61)
    assert await take(fleet, job, limits) == -1


async def test_a_rate_is_kept_by_all_together(fleet, job, clock):
    limits = RouteLimits(gap_ms=250.0)
    assert await take(fleet, job, limits) == 0
    assert await take(fleet, job, limits) == 250
    clock.advance(0.25)
    assert await take(fleet, job, limits) == 0


async def test_a_repeated_call_takes_and_counts_nothing_twice(fleet, job):
    limits = RouteLimits(requests=1)
    assert [await take(fleet, job, limits, place=job) for _ in range(2)] == [0, 0]
    await fleet.settle([settled(job, "good", place=job)])
    fleet.shard._numbers = count(next(fleet.shard._numbers) - 1)  # the same number again
    known = await fleet.settle([settled(job, "good", place=job)])
    assert known.routes[job]["good"] == 1


async def test_a_dead_route_rests_and_longer_each_time(fleet, job, clock):
    rests = []
    for _ in range(5):
        known = await fleet.settle([settled(job, "fault")])
        until_ms = known.routes[job].get("rests", clock.now_ms)
        rests.append((until_ms - clock.now_ms) / 1000)
        again = await fleet.settle([settled(job, "fault")] * (5 if rests[-1] else 0))
        assert again.routes[job].get("rests", clock.now_ms) == until_ms  # they died together
        clock.advance(rests[-1])
    assert rests == [0, 0, 10, 20, 40]
    known = await fleet.settle([settled(job, "good")])
    assert "rests" not in known.routes[job]


async def test_the_server_learns_as_the_worker_does(fleet, job, clock):
    ours, domain = Arms(at=clock()), f"{job}.example"
    for number in range(60):
        route, good = f"{job}-{number % 2}", number % 3 > 0
        clock.advance(40)
        one = Settled(
            route=route,
            domain=domain,
            verdict="good" if good else "ban",
            cost=Cost(2**18, 7),
            seconds=0.25,
        )
        known = await fleet.settle([one])
        ours.learn(route, is_good=good, seconds=0.25, mb=0.25, now_ms=clock())
    theirs = msgspec.msgpack.decode(known.domains[domain], type=Arms)
    for route, arm in ours.arms.items():
        found = theirs.arms[route]
        assert found.good == pytest.approx(arm.good)
        for field in ("bad", "seconds", "mb"):
            assert getattr(found, field) == pytest.approx(getattr(arm, field))
        assert (found.good_total + found.bans, found.money) == (30, 210)
    assert domain in await fleet.domains()


async def test_faults_of_pages_are_counted_and_blame_nobody(fleet, job):
    known = await fleet.settle([settled(job, "page")])
    arm = msgspec.msgpack.decode(known.domains[f"{job}.example"], type=Arms).arms[job]
    assert (arm.good, arm.bad, arm.faults) == (0, 0, 1)


async def test_a_record_that_makes_no_sense_is_begun_anew(fleet, job):
    key = fleet.shard.keys.key("arms", f"{job}.example")
    for nonsense in (b"\xc1", msgspec.msgpack.encode([1]), msgspec.msgpack.encode({"arms": 3})):
        await fleet.shard.server.command("SET", key, nonsense)
        known = await fleet.settle([settled(job, "good")])
        assert (
            msgspec.msgpack.decode(known.domains[f"{job}.example"], type=Arms).arms[job].good == 1
        )


async def test_what_was_spent_can_be_forgotten(fleet, job):
    await fleet.settle([settled(job, "good")])
    await fleet.forget([job])
    assert job not in (await fleet.settle()).routes
