"""When requests left, and when others may: the clock of a host."""

from __future__ import annotations

import pytest

from lua.conftest import HOST, SLACK_MS

DELAY_MS, GAP_MS = 1000, 1000 + SLACK_MS


@pytest.fixture
async def polite(make_raw):
    raw = await make_raw(delay_s=1, max_in_flight=2)
    await raw.add("1", "2", "3")
    return raw


async def depart(raw, moment_ms=0, *, ago_ms=-1, max_wait_ms=-1, hold_ms=0):
    ask = [HOST, moment_ms, ago_ms, max_wait_ms, hold_ms]
    wait_ms, granted_ms = await raw.shard.call("depart", ask)
    return wait_ms, granted_ms


async def test_a_request_that_left_late_puts_off_the_next_turn(polite, clock):
    turn = clock()
    await polite.lease(1)
    clock.advance(0.8)

    await depart(polite, ago_ms=100)

    assert (await polite.known()).asked_at == turn + 700
    clock.advance(0.899 + SLACK_MS / 1000)
    assert (await polite.lease(1)).fps == []
    clock.advance(0.001)
    assert (await polite.lease(1)).fps == ["2"]


async def test_what_was_known_already_moves_nothing_back(polite, clock):
    await polite.lease(1)
    clock.advance(GAP_MS / 1000)
    second = clock()
    await polite.lease(1)

    await depart(polite, ago_ms=900)

    assert (await polite.known()).asked_at == second


async def test_a_turn_that_nobody_had_another_since_is_moved_to_now(polite, clock):
    turn = clock()
    await polite.lease(1)
    clock.advance(0.9)

    assert await depart(polite, turn, max_wait_ms=0) == (0, clock())

    clock.advance(0.5)
    assert (await polite.lease(1)).fps == []


async def test_late_behind_somebody_elses_turn_the_next_moment_is_reserved(polite, clock):
    first = clock()
    await polite.lease(1)
    clock.advance(GAP_MS / 1000)
    second = clock()
    await polite.lease(1)
    clock.advance(0.1)

    assert await depart(polite, first, max_wait_ms=5000) == (GAP_MS - 100, second + GAP_MS)
    assert await depart(polite, first, max_wait_ms=5000) == (2 * GAP_MS - 100, second + 2 * GAP_MS)


async def test_a_moment_that_is_held_is_ours_as_long_and_the_next_turn_is_after_it(polite, clock):
    await polite.lease(1)
    clock.advance(0.1)

    wait_ms, moment_ms = await depart(polite, clock() - 100, max_wait_ms=0, hold_ms=500)
    assert (wait_ms, moment_ms) == (0, clock() + 500)

    clock.advance(0.6)
    assert await depart(polite, moment_ms, max_wait_ms=0) == (0, clock())
    assert await depart(polite, max_wait_ms=5000, hold_ms=500) == (GAP_MS, clock() + GAP_MS + 500)
    assert await depart(polite, max_wait_ms=5000) == (2 * GAP_MS + 500, clock() + 2 * GAP_MS + 500)


async def test_a_wait_that_is_too_long_reserves_nothing(polite, clock):
    turn = clock()
    await polite.lease(1)

    assert await depart(polite, ago_ms=0, max_wait_ms=500) == (-1, 0)

    assert (await polite.known()).asked_at == turn


async def test_a_second_request_of_an_attempt_keeps_the_delay_from_its_first(polite, clock):
    await polite.lease(1)
    clock.advance(0.4)

    assert await depart(polite, ago_ms=100, max_wait_ms=5000) == (
        GAP_MS - 100,
        clock() + GAP_MS - 100,
    )


async def test_the_delay_is_the_hosts_own(polite, clock):
    await polite.host(HOST, field="delay_ms", value=3000)
    await polite.lease(1)

    assert await depart(polite, ago_ms=0, max_wait_ms=5000) == (
        3000 + SLACK_MS,
        clock() + 3000 + SLACK_MS,
    )


async def test_many_who_ask_at_once_get_moments_of_their_own(polite, clock):
    await polite.lease(1)
    asks = [HOST, 0, 0, 9000, 0] * 3

    answer = await polite.shard.call("depart", asks)

    assert answer[::2] == [GAP_MS, 2 * GAP_MS, 3 * GAP_MS]


async def test_a_lease_that_ran_out_starts_the_clock_again(polite, clock):
    await polite.lease(1, ttl_ms=5000)
    clock.advance(5)

    assert (await polite.lease(1)).fps == []

    clock.advance(GAP_MS / 1000)
    assert (await polite.lease(1)).fps == ["2"]


async def test_a_lease_says_how_its_host_wants_to_be_asked(make_raw, clock):
    raw = await make_raw(delay_s=0, max_in_flight=1)

    async def pace():
        words = (
            (await raw.shard.call("lease", limit=9, ttl_ms=60_000, lane="", company=0))[5]
            .decode()
            .split()
        )
        return sorted(zip(words[::3], words[1::3], words[2::3], strict=True))

    await raw.add("1")
    assert await pace() == []
    await raw.add("2", host="b.test")
    await raw.add("3", host="slow.test")
    await raw.host("slow.test", field="delay_ms", value=2000)

    assert await pace() == [(str(clock()), "0", "0"), (str(clock()), "2000", "0")]


async def test_a_host_that_has_a_rest_grants_no_moment(polite, clock):
    """Somebody else heard Retry-After while we had our turn."""
    turn = clock()
    await polite.lease(1)
    await polite.host(HOST, field="blocked_for_ms", value=60_000)

    assert await depart(polite, turn, max_wait_ms=90_000) == (-1, 0)

    assert (await polite.known()).asked_at == turn
    clock.advance(60)
    assert (await depart(polite, turn, max_wait_ms=0))[0] == 0


async def test_a_moment_that_was_reserved_stays_when_a_lease_runs_out(polite, clock):
    await polite.lease(1, ttl_ms=1500)
    clock.advance(GAP_MS / 1000)
    await polite.lease(1)
    wait_ms, moment_ms = await depart(polite, ago_ms=0, max_wait_ms=9000)
    clock.advance(0.5)

    await polite.reap()

    assert wait_ms == GAP_MS
    assert (await polite.known()).asked_at == moment_ms


async def test_a_repeated_lease_does_not_take_the_turn_of_another_for_its_own(
    polite, make_raw, clock
):
    async def pace():
        client = polite.numbered(100).shard
        return (await client.call("lease", limit=1, ttl_ms=60_000, lane="", company=0))[5].decode()

    assert await pace() == f"{clock()} {DELAY_MS} {SLACK_MS}"
    clock.advance(GAP_MS / 1000)
    other = await make_raw()
    assert (await other.lease(1)).fps == ["2"]

    assert await pace() == f"0 {DELAY_MS} {SLACK_MS}"
