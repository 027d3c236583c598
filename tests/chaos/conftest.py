"""Servers and processes of one test's own, gone when it ends."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from chaos.rig import Fleet, PrivateServer, rude
from chaos.worker import patient
from forks import Nursery
from skitter.frontier.jobs import create_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from skitter.embedded import ServerOptions
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server


@pytest.fixture
def make_private_server() -> Iterator[Callable[..., PrivateServer]]:
    made: list[PrivateServer] = []

    def make(options: ServerOptions | None = None) -> PrivateServer:
        made.append(PrivateServer(options))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def private_server(make_private_server: Callable[..., PrivateServer]) -> PrivateServer:
    return make_private_server()


@pytest.fixture
async def private(private_server: PrivateServer) -> AsyncIterator[Server]:
    """A connection to the private server."""
    async with patient(private_server.url) as connected:
        yield connected


@pytest.fixture
async def frontier(private: Server, job: str) -> Frontier:
    """A job on the private server that hands out everything at once, by the server's clock."""
    return await create_job(private, job, options=rude())


@pytest.fixture(scope="session")
def workers() -> Iterator[Nursery]:
    with closing(Nursery("chaos", "-W", "error")) as opened:
        yield opened


@pytest.fixture
def fleet(tmp_path: Path, workers: Nursery) -> Iterator[Fleet]:
    processes = Fleet(tmp_path, workers)
    yield processes
    processes.close()


@pytest.fixture
def chance(seed: int) -> random.Random:
    """The test's own luck; its seed is part of the test's name, and so of every failure."""
    return random.Random(seed)
