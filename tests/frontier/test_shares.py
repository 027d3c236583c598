"""Jobs that share a machine begin pages in proportion to their shares."""

from __future__ import annotations

from collections import Counter

import pytest

from skitter.frontier.delays import Share

SHARES = {"a": 1, "b": 2, "c": 5}


@pytest.fixture
def share(server, clock, job):
    def make(name: str) -> Share:
        made = Share.of(server, name, SHARES[name], clock=clock)
        made.machine = job  # one that no other test has
        return made

    return make


async def ask(jobs, clock, *, times: int, wanted: int = 32) -> Counter[str]:
    begun: Counter[str] = Counter()
    for _ in range(times):
        for name, one in jobs.items():
            begun[name] += await one.take(wanted)
        clock.advance(0.02)
    return begun


async def test_three_jobs_begin_pages_at_1_to_2_to_5(share, clock):
    jobs = {name: share(name) for name in SHARES}
    begun = await ask(jobs, clock, times=400)
    assert begun["b"] / begun["a"] == pytest.approx(2, rel=0.05)
    assert begun["c"] / begun["a"] == pytest.approx(5, rel=0.05)


async def test_one_alone_and_one_whose_others_have_nothing_to_begin_have_it_all(share, clock):
    small, large = share("a"), share("c")
    assert [await small.take(32) for _ in range(3)] == [32] * 3
    assert await large.take(32) == 32
    await large.give_back(30)  # its hosts rest
    assert [await small.take(32) for _ in range(3)] == [32] * 3
    await ask({"c": large}, clock, times=20)
    clock.advance(1)  # it has ended
    assert await small.take(32) == 32
    clock.advance(90)
    await small.take(32)
    key = small.shard.keys.key("shares", small.machine)
    assert await small.shard.server.command("HKEYS", key) == [b"a"]


async def test_who_comes_back_has_saved_nothing_up(share, clock):
    small, large = share("a"), share("c")
    await ask({"a": small}, clock, times=100)
    await large.take(32)
    begun = await ask({"a": small, "c": large}, clock, times=100)
    assert begun["c"] / begun["a"] == pytest.approx(5, rel=0.1)
