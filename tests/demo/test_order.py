"""The bookshop is crawled whole, in whatever order its answers come."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import skitter.demo
from bookshop import expected_items
from conftest import rude
from skitter.demo.site import BookShop
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.fetch import FetchOptions, Guard, HttpFetcher
from skitter.frontier.jobs import create_job
from skitter.model import Request, Response
from skitter.settings import WorkerConfig, Workers
from skitter.spider.importing import load_spider

BOOKS = f"{skitter.demo.__path__[0]}/books.py"


class Unhurried:
    """Every answer takes its time."""

    def __init__(self, fetcher: HttpFetcher, seed: int) -> None:
        self.fetcher, self.chance = fetcher, random.Random(seed)

    async def fetch(self, request: Request, **how: Any) -> Response:
        response = await self.fetcher.fetch(request, **how)
        await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.01, 0.1)))
        return response


async def work(frontier, spider, seed: int) -> None:
    config = WorkerConfig(fetch=FetchOptions(), workers=Workers(concurrency=16))
    async with HttpFetcher(guard=Guard.for_seeds(spider.start)) as fetcher:
        slow = Unhurried(fetcher, seed)
        options = WorkerOptions.of(config, watch_signals=False)
        async with open_worker(frontier, spider, config, fetcher=slow, options=options) as worker:
            await worker.run()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2))
async def test_every_book_is_found_and_nothing_is_held(server, job, monkeypatch, seed):
    async with BookShop(books=700) as shop:
        monkeypatch.setenv("SKITTER_DEMO_URL", shop.url)
        spider = load_spider(BOOKS)
        frontier = await create_job(server, job, options=rude())
        await frontier.add([seed async for seed in spider.seeds()])
        others = [await create_job(server, job) for _ in range(2)]

        await asyncio.gather(*(work(one, spider, seed + n) for n, one in enumerate(others)))

        stats = await frontier.stats()
        assert (stats.crawled, stats.trapped) == (True, 0)
        assert stats.items == len(expected_items(shop))
