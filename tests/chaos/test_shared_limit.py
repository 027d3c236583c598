"""One max_pages over many shards, asked by many processes: it is exact, whoever dies."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chaos.rig import assert_clean, finished, progress, results, rude, slow, until
from chaos.worker import pages
from skitter.frontier.jobs import create_job
from skitter.model import Request
from skitter.settings import Layout, Limits
from skitter.urls import shard_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server

pytestmark = pytest.mark.timeout(300)
SHARDS = 3


def uneven(urls: int) -> list[str]:
    """One host has nine of ten pages; twenty others share the rest."""
    rest = urls // 10
    return [f"https://huge.test/{n}" for n in range(urls - rest)] + pages(0, rest)


@pytest.fixture
def limited(private: Server, job: str) -> Callable[[int], Awaitable[Frontier]]:
    """A job with that max_pages."""

    async def limited(max_pages: int) -> Frontier:
        options = replace(rude(), limits=Limits(max_pages=max_pages))
        return await create_job(private, job, options=options, layout=Layout(shards=SHARDS))

    return limited


@pytest.mark.parametrize(
    ("urls", "max_pages", "kills"),
    [
        slow(200, 57, 0),
        (200, 57, 4),
        (40, 57, 3),
        slow(9000, 4000, 8),
        *(slow(300, 57, kills) for kills in range(5, 15)),
    ],
)
async def test_four_workers_do_exactly_so_many_pages_also_if_others_are_killed(
    private_server, limited, fleet, urls, max_pages, kills
):
    frontier, chance = await limited(max_pages), random.Random(kills)
    for _ in range(4 + kills):
        orders = {"lease_s": 1.0, "batch": 5, "fetch_s": 0.005}
        fleet.start("work", private_server.url, frontier.job, **orders)
    await fleet.ready(4 + kills)
    await frontier.add([Request(url=url) for url in uneven(urls)])

    for _ in range(kills):
        await progress(frontier, fleet, by=chance.randint(1, 1 + max_pages // (2 * kills)))
        fleet.kill(chance.choice(fleet.living))

    await until(lambda: finished(frontier, fleet), what="the crawl is finished")
    await fleet.dismiss()
    expected = min(urls, max_pages)
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.leased) == (expected, 0, 0)
    seen = await results(frontier)
    assert (len(seen), max(seen.values())) == (expected, 1)
    await assert_clean(frontier)


async def test_links_that_lead_from_shard_to_shard_end_at_the_limit(private_server, limited, fleet):
    """The shard that gets the links has no pages before, and the one that has them runs dry."""
    frontier = await limited(57)
    seeds = [url for url in pages(0, 200) if shard_of(url.split("/")[2], SHARDS) == 1][:5]
    await frontier.add([Request(url=url) for url in seeds])
    for _ in range(4):
        fleet.start("work", private_server.url, frontier.job, batch=4, links=20, across=20)
    await fleet.ready(4)

    await until(lambda: finished(frontier, fleet), what="the crawl is finished")
    await fleet.dismiss()
    stats = await frontier.stats()
    assert (stats.done, stats.seen) == (57, 105)
    homes = {shard_of(url.split("/")[2], SHARDS) for url in await results(frontier)}
    assert len(homes) > 1
    await assert_clean(frontier)


@pytest.mark.parametrize(("urls", "restarts", "seed"), [slow(6000, 5, seed) for seed in (1, 2)])
async def test_a_killed_server_forgets_no_page_and_allows_none_too_many(
    private_server, limited, fleet, chance, urls, restarts
):
    frontier = await limited(urls // 2)
    await frontier.add([Request(url=url) for url in uneven(urls)])
    for _ in range(4):
        fleet.start("work", private_server.url, frontier.job, lease_s=5, batch=10)
    await fleet.ready(4)

    for _ in range(restarts):
        await progress(frontier, fleet, by=chance.randint(1, urls // (3 * restarts)))
        await private_server.restart()

    await until(lambda: finished(frontier, fleet), what="the crawl is finished")
    await fleet.dismiss()
    assert (await frontier.stats()).done == urls // 2
    await assert_clean(frontier)
