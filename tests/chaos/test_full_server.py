"""A server without memory refuses what makes it grow, as a whole; everything else goes on."""

from __future__ import annotations

import pytest

from chaos.rig import assert_clean, finished, rude, slow, until
from chaos.worker import pages
from skitter.embedded import ServerOptions
from skitter.errors import ServerFull
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import connect
from skitter.model import Added, Request

pytestmark = pytest.mark.timeout(300)


async def flood(frontier, first: int, *, batch: int, padding: int) -> int:
    """Add pages until the server is full. Returns the number of the first that was refused."""
    while True:
        urls = pages(first, first + batch)
        requests = [Request(url=url, meta={"padding": "x" * padding}) for url in urls]
        try:
            answers = await frontier.add(requests)
        except ServerFull:
            return first
        assert set(answers) == {Added.NEW}
        first += batch


@pytest.mark.parametrize("padding", [20_000, slow(500)])
async def test_a_flood_fills_the_server_and_workers_drain_it_while_it_is_full(
    make_private_server, fleet, job, padding
):
    server = make_private_server(ServerOptions(max_memory_mb=64))
    async with connect(server.url) as connected:
        frontier = await create_job(connected, job, options=rude())
        # A large batch is refused while a small one still fits: go on until nothing does.
        accepted = 0
        for batch, weight in ((100, padding), (10, padding), (1, 0)):
            accepted = await flood(frontier, accepted, batch=batch, padding=weight)
        stats = await frontier.stats()
        assert (stats.seen, stats.pending) == (accepted, accepted)
        await assert_clean(frontier)

        # No items: they would fill the server again. Workers only drain it.
        for _ in range(2):
            fleet.start("work", server.url, job, batch=50, bulk=True, lease_s=60, yields=False)
        await until(lambda: finished(frontier, fleet), what="the flood is drained")

        more = pages(accepted, accepted + 500)
        assert await frontier.add([Request(url=url) for url in more]) == [Added.NEW] * 500
        await until(lambda: finished(frontier, fleet), what="the rest is done")
        await fleet.dismiss()
        stats = await frontier.stats()
        assert (stats.done, stats.seen, stats.lost) == (accepted + 500, accepted + 500, 0)
        assert fleet.oracle.urls("done").keys() == set(pages(0, accepted + 500))
        await assert_clean(frontier)
