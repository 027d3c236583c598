"""Any beginning of the append-only file is a legal state: work is redone, never skipped."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from chaos.rig import PrivateServer, assert_clean, once, results, rude, slow, until
from chaos.worker import links_of, pages
from skitter.frontier.dead import dead_letters, revive
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import connect
from skitter.model import Completion, Failure, Lease, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.frontier.frontier import Frontier

pytestmark = pytest.mark.timeout(300)

JOB = "cut"
SEEDS = pages(0, 300)
HOPELESS = set(SEEDS[::17])  # pages that never work
GOOD = [url for url in SEEDS if url not in HOPELESS]
ALL_GOOD = [*GOOD, *(link for url in GOOD for link in links_of(url, 2))]
SHORT_LEASE_S = 0.05


def completion(lease: Lease) -> Completion:
    found = links_of(lease.url, 2) if lease.request.depth == 0 else []
    links = [Request(url=url, depth=1) for url in found]
    return Completion(lease=lease, items=["item"], links=links)


async def add_seeds(frontier: Frontier) -> None:
    for first in range(0, len(SEEDS), 25):
        await frontier.add([Request(url=url) for url in SEEDS[first : first + 25]])


async def step(frontier: Frontier, chance: random.Random) -> None:
    """Take a few, and let each end in one of the ways there are; some are just forgotten."""
    leases = (await frontier.lease(chance.randint(1, 40), ttl_s=SHORT_LEASE_S)).leases
    ends: dict[str, list[Any]] = {"done": [], "failed": [], "released": [], "kept": []}
    for lease in leases:
        fate = chance.choices(list(ends), weights=[8, 1, 1, 1])[0]
        ends["failed" if lease.url in HOPELESS and fate == "done" else fate].append(lease)
    await frontier.complete([completion(lease) for lease in ends["done"]])
    await frontier.retry([Failure(lease=one, error="no", after_s=0) for one in ends["failed"]])
    await frontier.release(ends["released"])
    await frontier.extend(ends["kept"], ttl_s=SHORT_LEASE_S)
    if chance.random() < 0.1:
        await revive(frontier, [one async for one in dead_letters(frontier)])


async def finish(frontier: Frontier) -> None:
    """Do all that is left, without any luck: hopeless pages die, all others are done."""

    async def nothing_is_left() -> bool:
        leases = (await frontier.lease(500, ttl_s=60)).leases
        good = [completion(lease) for lease in leases if lease.url not in HOPELESS]
        bad = [Failure(lease=one, error="no") for one in leases if one.url in HOPELESS]
        await frontier.complete(good)
        await frontier.bury(bad)
        stats = await frontier.stats()
        return not leases and not stats.pending + stats.delayed + stats.leased

    await until(nothing_is_left, what="the crawl is finished")


@pytest.fixture(scope="module")
def history() -> Iterator[PrivateServer]:
    """A killed server and the file it left: a crawl in which everything happens."""
    import asyncio

    server = PrivateServer()

    async def crawl() -> None:
        chance = random.Random(0)
        async with connect(server.url) as connected:
            frontier = await create_job(connected, JOB, options=rude())
            await add_seeds(frontier)
            while (await frontier.stats()).done < len(ALL_GOOD) * 0.9:
                await step(frontier, chance)
        server.kill()
        await until(lambda: not server.alive, what="the server is gone")

    try:
        server.start()
        asyncio.run(crawl())
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("seed", [*range(5), *(slow(seed) for seed in range(5, 115))])
async def test_a_crawl_goes_on_from_any_beginning_of_its_append_only_file(history, seed):
    server = history.copy()
    try:
        size = server.append_only_file.stat().st_size
        kept = random.Random(seed).randrange(size + 1)
        os.truncate(server.append_only_file, kept)
        server.start()
        async with connect(server.url) as connected:
            frontier = await create_job(connected, JOB, options=rude())
            await assert_clean(frontier)
            known = (await frontier.stats()).seen

            await finish(frontier)
            stats = await frontier.stats()
            assert stats.seen == stats.done + stats.dead >= known
            assert stats.items == stats.done
            await assert_clean(frontier)

            await add_seeds(frontier)
            await finish(frontier)
            assert await results(frontier) == once(ALL_GOOD)
            assert {letter.url async for letter in dead_letters(frontier)} == HOPELESS
            await assert_clean(frontier)
    finally:
        server.close()
