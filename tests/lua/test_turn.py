"""A clock that several hosts or several jobs share."""

from __future__ import annotations

import pytest

from skitter.frontier.sites.hosts import HELD_S, InFlightPlace, begin_rest, give_back, take_turn


@pytest.fixture
def ask(frontier, job):
    async def ask(delay_s=1.0, max_wait_s=60.0, moment_ms=0, name=job):
        return await take_turn(
            frontier, name, delay_s=delay_s, max_wait_s=max_wait_s, moment_ms=moment_ms
        )

    return ask


async def test_moments_are_a_delay_apart_and_nobody_gets_the_same(ask, clock):
    start = clock()

    assert [await ask() for _ in range(3)] == [(0, start), (1, start + 1000), (2, start + 2000)]


async def test_clocks_know_nothing_of_each_other(ask, job):
    await ask()

    assert (await ask(name=f"{job}-other")).wait_s == 0


async def test_a_wait_that_is_too_long_is_told_and_reserves_nothing(ask, clock):
    await ask()

    assert await ask(delay_s=9, max_wait_s=5) == (9, 0)
    assert await ask() == (1, clock() + 1000)


async def test_whoever_wants_the_longer_delay_has_it_before_and_after(ask):
    await ask(delay_s=1)
    assert (await ask(delay_s=5)).wait_s == 5
    assert (await ask(delay_s=1)).wait_s == 10


async def test_a_moment_that_passed_unused_is_moved_to_now_if_it_is_the_last(ask, clock):
    first = await ask()
    clock.advance(0.4)
    assert await ask(moment_ms=first.moment_ms) == (0, clock())

    second = await ask()
    await ask()
    clock.advance(1.5)
    assert (await ask(moment_ms=second.moment_ms)).wait_s == 1.5


async def test_a_rest_holds_for_all_and_a_shorter_one_does_not_end_it(frontier, job, ask, clock):
    await begin_rest(frontier, job, for_s=60)
    await begin_rest(frontier, job, for_s=10)

    assert await ask(delay_s=0, max_wait_s=30) == (60, 0)
    clock.advance(60)
    assert (await ask()).wait_s == 0


async def test_it_is_gone_when_nobody_needs_it(frontier, server, job, ask):
    await ask(delay_s=30)
    key = frontier.home.keys.key("clock", job)

    assert key == f"skitter:clock:{{{job}}}"
    assert 30_000 <= await server.command("PTTL", key) <= 31_000


async def test_what_makes_no_sense_is_begun_anew(frontier, server, job, ask):
    await server.command("SET", frontier.home.keys.key("clock", job), "nonsense")

    assert (await ask()).wait_s == 0


async def test_no_more_are_under_way_than_whoever_asks_allows(frontier, job, clock):
    async def ask(name, limit=1):
        place = InFlightPlace(name, limit)
        return await take_turn(frontier, job, place, delay_s=0.0, max_wait_s=60.0)

    assert (await ask("a")).moment_ms
    assert (await ask("a")).moment_ms  # its second request
    assert not (await ask("b")).moment_ms
    assert (await ask("b", limit=2)).moment_ms
    await give_back(frontier, job, InFlightPlace("a", 1))
    assert not (await ask("a")).moment_ms
    await give_back(frontier, job, InFlightPlace("b", 1))
    assert (await ask("a")).moment_ms

    clock.advance(HELD_S + 1)  # it was killed
    assert (await ask("c")).moment_ms
