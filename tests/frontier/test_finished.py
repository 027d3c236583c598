"""When a job is over: nothing pending, delayed, leased, fed or unloaded."""

from __future__ import annotations

import pytest

from conftest import rude
from skitter.frontier.control import set_state
from skitter.frontier.items import read_items, remove_items
from skitter.frontier.transport.keys import feed_key
from skitter.model import Completion, Failure, Request, State


async def over(frontier) -> tuple[bool, bool]:
    stats = await frontier.stats()
    return stats.crawled, stats.finished


async def push(frontier, *messages) -> None:
    await frontier.server.command("LPUSH", feed_key(frontier.job), *messages)


async def test_a_job_that_never_saw_a_url_is_not_finished(frontier):
    assert await over(frontier) == (False, False)


async def test_pending_leased_and_delayed_requests_keep_a_job_going(frontier):
    await frontier.add([Request(url="https://a.test/")])
    assert await over(frontier) == (False, False)
    [lease] = (await frontier.lease(1)).leases
    assert await over(frontier) == (False, False)
    await frontier.retry([Failure(lease=lease, error="slow")])
    assert await over(frontier) == (False, False)


async def test_items_that_nobody_loaded_keep_a_job_from_being_finished(frontier):
    await frontier.add([Request(url="https://a.test/")])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease, items=[{"n": 1}])])

    assert await over(frontier) == (True, False)
    async for page in read_items(frontier):
        await remove_items(frontier, page)
    assert await over(frontier) == (True, True)


async def done(frontier) -> None:
    await frontier.add([Request(url="https://a.test/")])
    [lease] = (await frontier.lease(1)).leases
    await frontier.complete([Completion(lease=lease)])


async def test_a_message_in_the_feed_keeps_a_job_going(frontier):
    await done(frontier)
    assert await over(frontier) == (True, True)

    await push(frontier, "https://a.test/fed")

    assert await over(frontier) == (False, False)
    assert (await frontier.stats()).fed == 1


@pytest.mark.parametrize("state", [State.DRAINING, State.CANCELLED])
async def test_a_feed_that_nobody_may_take_keeps_nobody_waiting(frontier, state):
    await done(frontier)
    await push(frontier, "https://a.test/fed")

    await set_state(frontier, state)

    assert await over(frontier) == (True, True)


async def test_neither_does_one_that_comes_when_the_pages_are_spent(make_frontier):
    frontier = await make_frontier(rude(max_pages=1))
    await frontier.add([Request(url="https://a.test/2", priority=-1)])
    await done(frontier)
    await push(frontier, "https://a.test/fed")

    assert await over(frontier) == (True, True)
