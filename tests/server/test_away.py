"""What those who listen hear of a Redis server that goes and comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from chaos.rig import PrivateServer
from server.test_events import first, listening
from skitter.frontier.admin.log import log
from skitter.frontier.connection import Server, connect


@pytest.fixture
def private() -> Iterator[PrivateServer]:
    server = PrivateServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
async def server(private: PrivateServer) -> AsyncIterator[Server]:
    async with connect(private.url) as connected:
        yield connected


async def test_a_stream_outlives_the_redis_server_and_says_so(web, private, frontier, job):
    async with listening(web, job) as told:
        await first(told, "overview")
        private.kill()
        assert (await first(told, "away")).data["detail"]
        await asyncio.to_thread(private.start)
        await first(told, "back")
        await log(frontier, "info", "w", "here again")

        assert (await first(told, "log")).data["text"] == "here again"
