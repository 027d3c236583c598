"""The gate through which the requests of an attempt leave, on a real frontier."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from skitter.frontier.frontier import Frontier
from skitter.frontier.pace import Departure
from skitter.model import Request
from skitter.settings import JobOptions, Politeness
from skitter.worker.departures import TOLERANCE_S, Departures, TooEarly

URLS = [f"https://a.test/{number}" for number in range(4)]


@pytest.fixture
def polite(make_frontier, clock):
    """A job with a delay, its first lease, and a gate for it."""

    async def make(delay_s: float = 30.0, max_in_flight: int = 1, late_s: float = -60.0):
        options = JobOptions(politeness=Politeness(delay_s=delay_s, max_in_flight=max_in_flight))
        frontier = await make_frontier(options)
        await frontier.add([Request(url=url) for url in URLS])
        [lease] = (await frontier.lease(1)).leases
        if lease.pace:
            pace = msgspec.structs.replace(lease.pace, since=time.monotonic() - late_s)
            lease = msgspec.structs.replace(lease, pace=pace)
        departures = Departures(frontier)
        return frontier, departures, lease, departures.gate(lease)

    return make


async def open_in_s(frontier: Frontier) -> float | None:
    """How long until the host may be asked again."""
    leased = await frontier.lease(1)
    assert leased.leases == []
    return leased.again_in_s


async def test_without_a_delay_there_is_no_gate(polite):
    _, _, _, gate = await polite(delay_s=0)
    assert gate is None


async def test_a_request_on_time_leaves_without_a_word(polite, clock):
    frontier, departures, lease, gate = await polite()
    await gate.leave()
    clock.advance(20)

    await departures.tell([lease])

    await frontier.release([lease])
    assert await open_in_s(frontier) == 10


async def test_a_late_one_leaves_and_its_lateness_is_told_before_its_lease_ends(polite, clock):
    frontier, departures, lease, gate = await polite(late_s=2 * TOLERANCE_S)
    await gate.leave()
    clock.advance(20)

    await departures.tell([lease])

    await frontier.release([lease])
    assert (await open_in_s(frontier) or 0) > 29  # it left just now, by the clock of this process


async def test_a_late_one_among_others_asks_first_and_moves_its_turn(polite, clock):
    frontier, _, _, gate = await polite(max_in_flight=2, late_s=2 * TOLERANCE_S)
    clock.advance(29)

    await gate.leave()

    clock.advance(2)
    assert await open_in_s(frontier) == 28


async def test_a_late_one_behind_anothers_turn_is_handed_back(polite, clock):
    frontier, _, _, gate = await polite(max_in_flight=2, late_s=2 * TOLERANCE_S)
    clock.advance(30)
    assert len((await frontier.lease(1)).leases) == 1

    with pytest.raises(TooEarly):
        await gate.leave()


async def test_two_that_leave_within_their_tolerance_are_a_delay_apart(polite):
    """The first one is a little late, the second one is not."""
    _, departures, lease, first = await polite(max_in_flight=2, late_s=0.5 * TOLERANCE_S)
    await first.leave()
    await asyncio.sleep(2 * TOLERANCE_S)
    delay_s = time.monotonic() - lease.pace.since  # its turn is now

    await departures.keep_apart(lease, msgspec.structs.replace(lease.pace, delay_s=delay_s))

    assert time.monotonic() - first.left_at >= delay_s


async def test_a_second_request_is_handed_back_if_its_moment_is_far_away(polite):
    _, _, _, gate = await polite()
    await gate.leave()
    assert gate.was_used

    with pytest.raises(TooEarly):
        await gate.leave()


async def test_a_second_request_waits_for_its_moment(polite):
    _, _, _, gate = await polite(delay_s=0.2)
    before = time.monotonic()
    await gate.leave()

    await gate.leave()

    assert time.monotonic() - before >= 0.19  # a lower bound: nothing makes a wait shorter


async def test_those_who_ask_at_once_share_a_call_and_get_moments_of_their_own(polite):
    frontier, departures, lease, _ = await polite(delay_s=1.0)
    calls: list[int] = []
    depart = frontier.depart

    class Watched:
        async def depart(self, asks):
            calls.append(len(asks))
            return await depart(asks)

    departures.frontier = Watched()
    ask = Departure(host=lease.host, ago_s=0.0, most_s=60.0)

    granted = await asyncio.gather(*(departures.ask(ask) for _ in range(5)))

    assert calls == [1, 4]
    assert [one.wait_s for one in granted] == [1.0, 2.0, 3.0, 4.0, 5.0]
