"""What a dead worker held, taken back by whoever saw it die."""

from __future__ import annotations

from skitter.frontier.workers import take_back
from skitter.model import Request
from skitter.settings import Layout


async def test_only_the_leases_of_that_worker_are_taken_back(make_frontier):
    dead, alive = await make_frontier(), await make_frontier()
    await dead.add(Request(url=f"https://h{n}.test/") for n in range(6))
    theirs, ours = (await dead.lease(4)).leases, (await alive.lease(4)).leases
    assert (len(theirs), len(ours)) == (4, 2)

    taken = await take_back(alive, dead.client, seen=True)

    assert taken == 4
    stats = await alive.stats()
    assert (stats.leased, stats.pending, stats.lost) == (2, 4, 4)


async def test_every_shard_is_looked_through(make_frontier):
    dead = await make_frontier(layout=Layout(shards=3))
    alive = await make_frontier()
    await dead.add(Request(url=f"https://h{n}.test/") for n in range(50))
    leased = len((await dead.lease(50)).leases)

    assert await take_back(alive, dead.client, seen=True) == leased

    assert (await alive.stats()).leased == 0
