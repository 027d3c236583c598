"""The server's clock is set: the job's own neither stops nor hurries."""

from __future__ import annotations

import pytest

from lua.conftest import SLACK_MS, feedback

HOUR_S = 3600


async def control(raw) -> dict[str, int]:
    found = await raw.read("control")
    return {name: int(found[name]) for name in ("clock", "shift") if name in found}


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_is_set_ends_no_lease_and_makes_nobody_wait(make_raw, clock, hours):
    raw = await make_raw(delay_s=2, max_in_flight=1)
    await raw.add("1")
    await raw.add("2")
    grant = await raw.lease(1, ttl_ms=60_000, since_ms=0)
    clock.advance(hours * HOUR_S + 1)

    again = await raw.lease(1, since_ms=1000)

    assert again.fps == []
    assert await raw.state_of(grant.fps[0]) == ["lease"]
    assert await raw.extend(*grant.claims) != []
    assert abs((await control(raw))["shift"] + hours * HOUR_S * 1000) <= 6000


async def test_a_host_is_asked_again_after_its_delay_although_the_clock_went_back(make_raw, clock):
    raw = await make_raw(delay_s=2, max_in_flight=5)
    await raw.add("1")
    await raw.add("2")
    await raw.lease(1, since_ms=0)
    clock.advance(-HOUR_S)
    waits = await raw.lease(1, since_ms=100)
    assert (waits.fps, waits.again_ms) == ([], 2000 + SLACK_MS)
    clock.advance(2 + SLACK_MS / 1000)

    assert (await raw.lease(1, since_ms=2000 + SLACK_MS)).fps == ["2"]


async def test_a_rest_of_a_host_is_not_cut_short_by_a_clock_that_went_forward(make_raw, clock):
    raw = await make_raw(max_in_flight=5)
    await raw.add("1")
    grant = await raw.lease(1, since_ms=0)
    await raw.retry(*grant.claims, after_ms=0, block_ms=600_000)
    clock.advance(HOUR_S)
    assert (await raw.lease(1, since_ms=100)).fps == []
    clock.advance(600)

    assert (await raw.lease(1, since_ms=600_000)).fps == ["1"]


@pytest.mark.parametrize("first", ["depart", "retry"])
async def test_a_call_before_the_next_lease_stores_no_moment_that_is_hours_ahead(
    make_raw, clock, first
):
    """The host would be asked again, or the page tried again, when those hours have passed."""
    raw = await make_raw(delay_s=2, max_in_flight=1)
    await raw.add("1")
    grant = await raw.lease(1, since_ms=0)
    clock.advance(HOUR_S)
    [(fp, token)] = grant.claims
    each: dict[str, tuple[object, ...]] = {
        "depart": ("a.test", 0, 100, -1, 0),
        "retry": (fp, token, 1000, "timeout", feedback(0)),
    }

    await raw.shard.call(first, each[first], vouched_ms=raw.vouched_ms(100))
    if first == "depart":
        await raw.release((fp, token))

    assert (await raw.lease(1, since_ms=200)).again_ms <= 2000 + SLACK_MS


async def test_who_never_leases_does_not_set_the_clock(raw, clock):
    """A producer that pushes right after the jump: to its knowledge, an hour has passed."""
    await raw.add("1")
    await raw.lease(1, since_ms=0)
    clock.advance(HOUR_S)
    await raw.shard.call("add", raw.link("2"), links=0, vouched_ms=-1)

    await raw.lease(1, since_ms=100)

    assert abs((await control(raw))["shift"] + HOUR_S * 1000) <= 6000


async def test_time_that_nobody_saw_has_passed(raw, clock):
    """A night without workers: whoever comes in the morning has not leased before."""
    await raw.add("1")
    await raw.lease(1, ttl_ms=60_000, since_ms=0)
    clock.advance(8 * HOUR_S)

    assert (await raw.lease(1)).fps == ["1"]
    assert "shift" not in await control(raw)


async def test_a_client_that_slept_while_others_leased_holds_nobody_up(make_raw, clock):
    """The monotonic clock of a machine that sleeps stands still."""
    sleeper, other = await make_raw(delay_s=0), await make_raw()
    await sleeper.add("1")
    await sleeper.lease(1, ttl_ms=60_000)
    clock.advance(HOUR_S)
    await other.lease(1)
    clock.advance(10)

    await sleeper.lease(1, since_ms=100)

    assert "shift" not in await control(sleeper)


async def test_a_server_that_forgot_the_last_lease_has_not_jumped(raw, clock):
    """Its last second is lost, or a replica that lags took over: its note of the clock is old."""
    await raw.add("1")
    await raw.lease(1)
    before = str((await control(raw))["clock"])
    clock.advance(HOUR_S)
    await raw.lease(1)
    await raw.shard.command("HSET", "control", "clock", before)
    clock.advance(1)

    await raw.lease(1, since_ms=1000)

    assert "shift" not in await control(raw)


async def lag_behind(raw, clock, seconds) -> None:
    """As earlier releases left it: a pause that was taken for a jump."""
    await raw.shard.command("HSET", "control", "shift", -1000 * seconds)
    clock.advance(seconds)


@pytest.mark.parametrize(("quiet_s", "lag_ms"), [(HOUR_S - 1, -10_000), (HOUR_S, 0)])
async def test_time_left_out_is_made_up_for_after_an_hour_without_clients(
    raw, clock, quiet_s, lag_ms
):
    await raw.lease(1)
    await lag_behind(raw, clock, 10)
    clock.advance(quiet_s)

    await raw.lease(1)

    assert (await control(raw))["shift"] == lag_ms
    assert raw.leased_ms == clock() + lag_ms


@pytest.mark.parametrize("waiting", ["leased", "retried", "resting"])
async def test_time_is_not_made_up_for_while_something_would_end_early_by_it(
    make_raw, clock, waiting
):
    raw = await make_raw(delay_s=1, max_in_flight=1)
    await raw.add("1", "2")
    grant = await raw.lease(1, ttl_ms=2 * HOUR_S * 1000)
    if waiting == "retried":
        await raw.retry(*grant.claims, after_ms=2 * HOUR_S * 1000)
    elif waiting == "resting":
        await raw.bury(*grant.claims, block_ms=2 * HOUR_S * 1000)
    await lag_behind(raw, clock, 10)
    clock.advance(1.5 * HOUR_S)

    await raw.lease(1)

    assert (await control(raw))["shift"] == -10_000


async def test_a_clock_that_is_a_little_off_is_left_alone(raw, clock):
    await raw.add("1")
    await raw.lease(1, since_ms=0)
    for seconds in (4, -3, 5, -4):
        clock.advance(seconds)
        await raw.lease(1, since_ms=0)

    assert "shift" not in await control(raw)


async def test_people_read_the_time_of_the_server(raw, clock):
    await raw.add("1")
    await raw.lease(1, since_ms=0)
    clock.advance(-HOUR_S)
    await raw.lease(1, since_ms=0)
    await raw.add("2")
    grant = await raw.lease(1, since_ms=0)
    await raw.bury(*grant.claims)

    assert await raw.read("dead") == {"2": clock()}
