"""Between two runs time passes, on a server that was started again and knows no script yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.rig import PrivateServer
from clocks import server_with_a_faked_clock, set_clock
from conftest import rude
from skitter.frontier.jobs import create_job, open_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import log
from skitter.model import Failure, Feedback, Request

PAUSE = "+40s"


@pytest.fixture
def private(tmp_path, monkeypatch) -> Iterator[PrivateServer]:
    monkeypatch.setenv("SKITTER_SERVER", str(server_with_a_faked_clock(tmp_path / "offset")))
    server = PrivateServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_retry_after_is_not_waited_for_again_after_a_pause(private, tmp_path, restarts):
    """Whichever call comes first: the log's overtook a lease whose script had to be loaded."""
    async with connect(private.url) as server:
        frontier = await create_job(server, "paused", options=rude())
        await frontier.add([Request(url=f"https://a.test/{number}") for number in range(3)])
        [lease] = (await frontier.lease(1)).leases
        feedback = Feedback(rest_ms=30_000)
        await frontier.retry([Failure(lease=lease, error="503", after_s=30, feedback=feedback)])
        assert (await frontier.lease(9)).leases == []
    if restarts:
        await private.restart()
    set_clock(tmp_path / "offset", PAUSE)
    async with connect(private.url) as server:
        if not restarts:
            await server.command("SCRIPT", "FLUSH")
        await log(await open_job(server, "paused"), "info", "supervisor", "it knows this script")
        worker = await open_job(server, "paused")

        leased, _ = await asyncio.gather(worker.lease(9), log(worker, "info", "w", "started"))

        assert len(leased.leases) == 3
        assert b"shift" not in await worker.home.command("HGETALL", "control")
