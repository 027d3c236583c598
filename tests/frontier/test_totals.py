"""A crawl of many shards is finished when all of them are, at one moment."""

from __future__ import annotations

import asyncio

import pytest

from conftest import rude
from skitter.frontier.control import set_state
from skitter.frontier.dead import dead_letters, revive
from skitter.frontier.transport.shard import Shard
from skitter.model import Completion, Failure, Request, State
from skitter.settings import Layout
from skitter.urls import shard_of

A, B = (next(f"h{n}.test" for n in range(99) if shard_of(f"h{n}.test", 2) == i) for i in (0, 1))


@pytest.fixture
async def frontier(make_frontier):
    """A job of two shards, with a page of A leased."""
    frontier = await make_frontier(rude(), Layout(shards=2))
    await frontier.add([Request(url=f"https://{A}/")])
    return frontier


def meanwhile(monkeypatch, action) -> None:
    """Once, when B was read and A was not yet."""
    counts = Shard.counts
    b_was_read, first = asyncio.Event(), iter([True])

    async def read(self):
        if self.keys.shard == 1:
            answer = await counts(self)
            b_was_read.set()
            return answer
        await b_was_read.wait()
        if next(first, False):
            await action()
        return await counts(self)

    monkeypatch.setattr(Shard, "counts", read)


async def follow_a_link(frontier) -> None:
    """The page of A is completed, and leads to one of B."""
    [lease] = (await frontier.lease(2)).leases
    link = Request(url=f"https://{B}/")
    await frontier.complete([Completion(lease=lease, links=[link])])


async def test_a_link_on_its_way_between_two_readings_is_not_missed(frontier, monkeypatch):
    meanwhile(monkeypatch, lambda: follow_a_link(frontier))

    stats = await frontier.stats()

    assert (stats.crawled, stats.pending) == (False, 1)


async def test_work_that_came_and_went_between_two_readings_is_noticed(frontier, monkeypatch):
    async def all_at_once():
        await follow_a_link(frontier)
        await frontier.complete(
            [Completion(lease=lease) for lease in (await frontier.lease(2)).leases]
        )

    meanwhile(monkeypatch, all_at_once)

    assert not (await frontier.stats()).crawled  # nobody saw a moment without work yet
    assert (await frontier.stats()).crawled


async def test_a_dead_letter_that_is_revived_meanwhile_is_not_missed(frontier, monkeypatch):
    await frontier.add([Request(url=f"https://{B}/")])
    one, two = sorted((await frontier.lease(2)).leases, key=lambda lease: lease.host != A)
    await frontier.bury([Failure(lease=two, error="gone")])

    async def revive_and_complete():
        letters = [letter async for letter in dead_letters(frontier)]
        assert await revive(frontier, letters) == 1
        await frontier.complete([Completion(lease=one)])

    meanwhile(monkeypatch, revive_and_complete)

    assert not (await frontier.stats()).crawled


async def test_a_job_is_finished_when_all_shards_are(frontier):
    [lease] = (await frontier.lease(2)).leases
    assert not (await frontier.stats()).crawled

    await frontier.complete([Completion(lease=lease)])

    assert (await frontier.stats()).crawled


async def test_a_cancelled_job_is_finished_when_no_shard_has_a_lease(frontier):
    await frontier.add([Request(url=f"https://{B}/")])
    [lease, _] = (await frontier.lease(2)).leases
    await set_state(frontier, State.CANCELLED)
    await frontier.release([lease])
    assert not (await frontier.stats()).crawled

    await frontier.release([_])

    assert (await frontier.stats()).crawled


async def test_a_cancel_that_not_all_shards_have_heard_of_finishes_nothing(frontier):
    await frontier.shards[1].call("control", ["state", "cancel"], create=0)

    assert not (await frontier.stats()).crawled
