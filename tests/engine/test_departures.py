"""The gate through which the requests of an attempt leave, on a real frontier."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from skitter.engine.departures import HOLDS_S, TOLERANCE_S, Departures, TooEarly
from skitter.frontier.delays import Departure
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.model import Completion, Feedback, Request
from skitter.settings import JobOptions, Politeness

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


async def next_departure(frontier: Frontier) -> float:
    """Lease as soon as possible, and leave."""
    await asyncio.sleep((await frontier.lease(1)).again_in_s or 0)
    [lease] = (await frontier.lease(1)).leases
    gate = Departures(frontier).gate(lease)
    assert gate is not None
    await gate.leave()
    return gate.left_at


async def test_without_a_delay_there_is_no_gate(polite):
    _, _, _, gate = await polite(delay_s=0)
    assert gate is None


async def test_a_request_on_time_leaves_without_a_word(polite, clock):
    frontier, departures, lease, gate = await polite()
    await gate.leave()
    clock.advance(20)

    await departures.report([lease])

    await frontier.release([lease])
    assert await open_in_s(frontier) == 10


async def test_a_late_one_leaves_and_its_lateness_is_told_before_its_lease_ends(polite, clock):
    frontier, departures, lease, gate = await polite(late_s=2 * TOLERANCE_S)
    await gate.leave()
    clock.advance(20)

    await departures.report([lease])

    await frontier.release([lease])
    assert (await open_in_s(frontier) or 0) > 29  # it left just now, by the clock of this process


async def test_a_late_one_among_others_asks_first_and_moves_its_turn(polite, clock):
    frontier, _, lease, gate = await polite(max_in_flight=2, late_s=2 * TOLERANCE_S)
    clock.advance(29)

    await gate.leave()

    clock.advance(2)
    held_s = (await open_in_s(frontier) or 0) - 28 - lease.pace.slack_s
    assert round(held_s, 3) in HOLDS_S  # on a busy machine it asks again


async def test_a_late_one_behind_anothers_turn_is_handed_back(polite, clock):
    frontier, _, lease, gate = await polite(max_in_flight=2, late_s=2 * TOLERANCE_S)
    clock.advance(30 + lease.pace.slack_s)
    assert len((await frontier.lease(1)).leases) == 1

    with pytest.raises(TooEarly):
        await gate.leave()


@pytest.mark.parametrize("max_in_flight", [1, 2])
async def test_a_little_lateness_brings_two_processes_no_closer_together(
    server, job, max_in_flight
):
    """The first one leaves late, but within what it may; the second one at once."""
    delay_s = 0.3
    polite = Politeness(delay_s=delay_s, max_in_flight=max_in_flight)
    one = await create_job(server, job, options=JobOptions(politeness=polite))
    await one.add([Request(url=url) for url in URLS])
    other = await create_job(server, job)
    [lease] = (await one.lease(1)).leases
    first = Departures(one).gate(lease)
    assert first is not None
    await asyncio.sleep(0.9 * TOLERANCE_S)

    await first.leave()

    if max_in_flight == 1:
        await one.complete([Completion(lease=lease, feedback=Feedback(left_ms=first.left_ms))])
    assert await next_departure(other) - first.left_at >= delay_s


class HeldUp:
    """A frontier in a process that goes on late, so often, after each answer."""

    def __init__(self, frontier: Frontier, *, late_s: float, times: int):
        self.options, self.layout = frontier.options, frontier.layout
        self._frontier, self._late_s = frontier, late_s
        self.times = times

    async def depart(self, asks):
        granted = await self._frontier.depart(asks)
        if self.times:
            self.times -= 1
            time.sleep(self._late_s)  # noqa: ASYNC251
        return granted


@pytest.mark.parametrize("times", [1, 2, 9])
async def test_a_process_that_is_always_late_brings_no_two_requests_together(server, job, times):
    """It asks again, for a moment that lasts longer: nobody else has a turn meanwhile."""
    delay_s, late_s = 0.3, 0.09
    polite = Politeness(delay_s=delay_s, max_in_flight=2)
    one = await create_job(server, job, options=JobOptions(politeness=polite))
    await one.add([Request(url=url) for url in URLS])
    other = await create_job(server, job)
    [lease] = (await one.lease(1)).leases
    first = Departures(HeldUp(one, late_s=late_s, times=times)).gate(lease)  # type: ignore[arg-type]
    assert first is not None
    time.sleep(late_s)  # noqa: ASYNC251

    await first.leave()

    assert await next_departure(other) - first.left_at >= delay_s


async def test_a_process_that_misses_even_the_longest_moment_hands_its_request_back(
    polite, monkeypatch
):
    monkeypatch.setattr("skitter.engine.departures.HOLDS_S", (0.0, 0.01))
    frontier, departures, _, gate = await polite(max_in_flight=2, late_s=2 * TOLERANCE_S)
    departures.frontier = HeldUp(frontier, late_s=0.03, times=2)

    with pytest.raises(TooEarly):
        await gate.leave()

    monkeypatch.setattr("skitter.engine.departures.HOLDS_S", (600.0,))  # not to be missed
    await gate.leave()  # as Scrapy does, for robots.txt


@pytest.mark.parametrize("max_in_flight", [1, 2])
async def test_another_thread_has_no_more_time_than_is_left_of_the_moment(polite, max_in_flight):
    _, _, _, gate = await polite(max_in_flight=max_in_flight)
    await gate.leave()
    gate._opened_at = time.monotonic() - 1.0

    assert gate.is_still_on_time() == (max_in_flight == 1)


async def test_parts_of_a_millisecond_count_when_it_is_told_when_a_request_left(server, job):
    polite = Politeness(delay_s=30)
    frontier = await create_job(server, job, options=JobOptions(politeness=polite))
    await frontier.add([Request(url=f"https://host{number}.test/") for number in range(20)])
    departures = Departures(frontier)
    for lease in (await frontier.lease(20)).leases:
        seconds, micros = await frontier.home.server.command("TIME")
        gate = departures.gate(lease)
        assert gate is not None
        await gate.leave()

        assert 1000 * gate.left_ms >= 1_000_000 * int(seconds) + int(micros)


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
        layout = departures.frontier.layout

        async def depart(self, asks):
            calls.append(len(asks))
            return await depart(asks)

    departures.frontier = Watched()
    ask = Departure(host=lease.host, ago_s=0.0, max_wait_s=60.0)

    granted = await asyncio.gather(*(departures.ask(ask) for _ in range(5)))

    assert calls == [1, 4]
    assert [one.wait_s for one in granted] == [1.0, 2.0, 3.0, 4.0, 5.0]
