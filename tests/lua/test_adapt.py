"""The delay of a host follows how it answers, and what is learned stands on the server."""

from __future__ import annotations

import struct

import pytest

from lua.conftest import HOST, SLACK_MS, visit, wait_ms
from skitter.frontier.delays import Incident
from skitter.frontier.transport.messages import encode

TEN_PERCENT = 1.1


async def own(raw):
    return (await raw.known()).own


async def test_a_host_that_is_slow_to_answer_is_asked_less_often(polite, clock):
    raw = await polite()

    await visit(raw, clock, latency_ms=3000)

    assert (await own(raw)) == {"latency_ms": 3000}
    assert await wait_ms(raw) == 6000


async def test_the_latency_is_an_average_that_follows_slowly(polite, clock):
    raw = await polite()
    await visit(raw, clock, latency_ms=3000)

    await visit(raw, clock, latency_ms=1000)

    assert (await own(raw))["latency_ms"] == 2600


async def test_a_fast_host_keeps_its_delay_and_a_record_without_extras(polite, clock):
    raw = await polite()

    await visit(raw, clock, latency_ms=200)

    assert await own(raw) == {}
    assert await wait_ms(raw) == 1000


async def test_requests_that_may_be_in_flight_together_share_the_latency(polite, clock):
    raw = await polite(max_in_flight=4)

    await visit(raw, clock, latency_ms=3000)

    assert await wait_ms(raw) == 1500 + SLACK_MS


async def test_without_a_delay_the_latency_slows_nothing_down(polite, clock):
    raw = await polite(delay_s=0)

    await visit(raw, clock, latency_ms=3000)

    assert await own(raw) == {}
    assert len((await raw.lease(1)).fps) == 1


async def test_the_factor_can_be_switched_off(polite, clock):
    raw = await polite(latency_factor=0)

    await visit(raw, clock, latency_ms=3000)

    assert await wait_ms(raw) == 1000


async def test_an_incident_doubles_the_delay_with_a_little_chance(polite, clock):
    raw = await polite()

    await visit(raw, clock, incident=503, latency_ms=100)

    assert 2000 <= await wait_ms(raw) <= 2000 * TEN_PERCENT
    assert (await own(raw))["incident"] == 503
    assert await raw.counter("incidents") == 1


async def test_in_one_window_it_is_doubled_once(polite, clock):
    raw = await polite(max_in_flight=3)
    first = await raw.lease(1)
    clock.advance(1)
    second = await raw.lease(1)

    await raw.retry(*first.claims, said={"incident": 429})
    await raw.retry(*second.claims, said={"incident": 429})

    assert (await own(raw))["raised_ms"] <= 2000 * TEN_PERCENT
    assert await raw.counter("incidents") == 1


async def test_the_next_window_doubles_it_again_up_to_the_cap(polite, clock):
    raw = await polite(max_delay_s=5)
    await visit(raw, clock, incident=429)
    clock.advance(10)

    await visit(raw, clock, incident=429)

    assert 4000 <= await wait_ms(raw) <= 4000 * TEN_PERCENT**2
    clock.advance(10)
    await visit(raw, clock, incident=429)
    assert await wait_ms(raw) == 5000


async def test_a_few_bad_pages_in_a_row_are_one_incident(polite, clock):
    raw = await polite(delay_s=0.05)

    for _ in range(8):
        await visit(raw, clock, incident=503)

    assert (await own(raw))["raised_ms"] <= 100 * TEN_PERCENT
    assert await raw.counter("incidents") == 1


async def test_the_rest_that_a_host_asks_for_is_the_window(polite, clock):
    raw = await polite(max_in_flight=2)
    first = await raw.lease(1)
    clock.advance(1)
    second = await raw.lease(1)
    await raw.retry(*first.claims, block_ms=60_000, said={"incident": 503})
    clock.advance(30)

    await raw.retry(*second.claims, said={"incident": 503})

    assert await raw.counter("incidents") == 1


async def test_20_clean_answers_bring_it_back_by_a_tenth_and_never_below_the_floor(polite, clock):
    raw = await polite()
    await visit(raw, clock, incident=Incident.REFUSED)
    raised_ms = (await own(raw))["raised_ms"]

    for _ in range(19):
        await visit(raw, clock, latency_ms=10)
    assert (await own(raw))["raised_ms"] == raised_ms
    await visit(raw, clock, latency_ms=10)
    assert (await own(raw))["raised_ms"] == int(0.9 * raised_ms)

    for _ in range(7 * 20):
        await visit(raw, clock, latency_ms=10)
    assert await own(raw) == {}
    assert await wait_ms(raw) == 1000


async def test_an_incident_on_the_way_back_begins_to_count_anew(polite, clock):
    raw = await polite()
    await visit(raw, clock, incident=429)
    for _ in range(19):
        await visit(raw, clock, latency_ms=10)

    await visit(raw, clock, incident=429)

    assert (await own(raw))["clean"] == 0
    assert (await own(raw))["raised_ms"] >= 4000


async def test_a_host_without_a_delay_gets_one_from_an_incident_and_loses_it_again(polite, clock):
    raw = await polite(delay_s=0)
    await visit(raw, clock, incident=503, latency_ms=150)
    assert 300 <= await wait_ms(raw) <= 300 * TEN_PERCENT

    await raw.host(HOST, field="raised_ms", value="")

    assert len((await raw.lease(1)).fps) == 1


async def test_a_late_answer_teaches_nothing(polite, clock):
    raw = await polite()
    granted = await raw.lease(1, ttl_ms=1000)
    clock.advance(5)
    await raw.lease(1)

    await raw.complete(*granted.claims, said={"incident": 503, "latency_ms": 9000})

    assert await own(raw) == {}


@pytest.mark.parametrize("nonsense", [-1, 2**40, float("nan"), "fast", None, {"a": 1}])
async def test_nonsense_teaches_nothing(polite, clock, nonsense):
    raw = await polite()

    await visit(raw, clock, latency_ms=nonsense, incident=nonsense)

    assert await own(raw) == {}


async def test_a_record_of_an_older_release_is_read_and_learned_into(polite, clock):
    raw = await polite()
    asked_at = clock() - 5000
    old = struct.pack("<iiiihBddd", 0, 7, 0, 0, 0, 1, 1.0, asked_at, 0.0)
    packed = old + encode({"delay_ms": 3000, "max_in_flight": 1})
    await raw.shard.server.command("HSET", raw.shard.keys.key("hosts"), HOST, packed)

    await visit(raw, clock, incident=503)

    known = await raw.known()
    assert (known.pages, known.own["delay_ms"], known.own["incident"]) == (8, 3000, 503)
    assert known.own["raised_ms"] >= 6000
    assert await raw.counter("damaged") == 0


async def test_what_a_browser_meets_counts_for_the_clock_of_its_host(polite, clock):
    raw = await polite()
    await raw.add("900", host=f"{HOST}|browser")
    granted = await raw.lease(1, lane="browser")

    await raw.complete(*granted.claims, said={"incident": 429})

    assert (await own(raw))["incident"] == 429
    assert (await raw.known(f"{HOST}|browser")).own == {}
    assert 2000 <= await wait_ms(raw) <= 2000 * TEN_PERCENT


@pytest.mark.parametrize(
    ("one_in", "delay_s", "at_most_s"),
    [(50, 0, 2), (10, 0, 4), (50, 1, 1.5 * 390), (10, 1, 2.2 * 390)],
)
@pytest.mark.parametrize("incident", [503, Incident.REFUSED])
async def test_a_few_bad_answers_halve_the_pace_and_no_more(
    polite, clock, one_in, delay_s, at_most_s, incident
):
    """A table of sites, each with 390 pages, that answer in a millisecond."""
    raw = await polite(delay_s=delay_s)
    began = clock()

    for number in range(390):
        bad = number % one_in == one_in - 1
        await visit(raw, clock, **({"incident": incident} if bad else {"latency_ms": 1}))
        clock.advance(0.001)

    assert clock() - began < 1000 * at_most_s


@pytest.mark.parametrize(("delay_s", "asked_at_most"), [(0, 1100), (0.05, 160), (1, 12)])
async def test_a_site_that_is_down_is_asked_less_and_less(polite, clock, delay_s, asked_at_most):
    raw = await polite(delay_s=delay_s)
    await raw.add(*map(str, range(400, 2000)))
    began, asked = clock(), 0

    while clock() - began < 60_000:
        await visit(raw, clock, incident=503)
        asked += 1

    assert asked <= asked_at_most
    assert (await own(raw))["raised_ms"] > 10_000


async def test_a_429_is_about_us_however_rare_it_is(polite, clock):
    raw = await polite()
    for number in range(120):
        await visit(raw, clock, **({"incident": 429} if number % 10 == 9 else {"latency_ms": 1}))

    assert (await own(raw))["raised_ms"] > 60_000
