"""A server that runs a long script answers BUSY: it is waited for, as one that is away."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from skitter.embedded import hold
from skitter.errors import ServerUnreachable
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import connect
from skitter.model import Completion, Request
from skitter.settings import MAX_PER_PAGE

LONG = "local t = os.clock() while os.clock() - t < tonumber(ARGV[1]) do end return 1"


@pytest.fixture
async def busy_server(short_dir):
    """Says that it is busy after a tenth of a second, where the usual is 5 s."""
    with hold(short_dir / "busy") as embedded:
        async with connect(embedded.url, password=embedded.password) as server:
            await server.command("CONFIG SET", "busy-reply-threshold", 100)
            yield server


async def keep_busy(server, seconds: float) -> asyncio.Task[None]:
    """Until the task ends, which it does when the server has told somebody that it is busy."""
    other = Redis(connection_pool=server.client.connection_pool)

    async def run() -> None:
        await other.eval(LONG, 0, str(seconds))

    task = asyncio.create_task(run())
    while not task.done():
        try:
            await other.ping()
        except ResponseError as error:
            if str(error).startswith("BUSY "):
                break
            raise
    return task


async def test_a_call_waits_for_a_server_that_is_busy(busy_server):
    frontier = await create_job(busy_server, "busy")
    task = await keep_busy(busy_server, 1.0)
    assert not task.done()

    [answer] = await frontier.add([Request(url="https://a.test/")])

    assert answer == "new"
    await task


async def test_a_server_that_is_busy_for_longer_than_patience_is_away_and_not_broken(busy_server):
    frontier = await create_job(busy_server, "busy")
    busy_server.patience_s = 0.1
    task = await keep_busy(busy_server, 2.0)

    with pytest.raises(ServerUnreachable, match="accepts no calls at the moment") as caught:
        await frontier.stats()

    assert caught.value.retryable
    await task


async def test_a_page_with_as_many_items_as_any_limit_allows_is_one_step(make_frontier):
    frontier = await make_frontier()
    await frontier.add([Request(url="https://a.test/")])
    [lease] = (await frontier.lease(1)).leases

    await frontier.complete([Completion(lease=lease, items=range(MAX_PER_PAGE))])

    stats = await frontier.stats()
    assert (stats.done, stats.items) == (1, MAX_PER_PAGE)
