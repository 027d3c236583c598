"""The neighbour behind proxies: one of them is banned, and the crawl finds the other."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest

from conftest import rude
from demo.raw import Wire, head
from skitter.demo import RARE
from skitter.demo.site.special import BOOKS, HOST
from skitter.engine.assembly import open_worker
from skitter.frontier.jobs import create_job
from skitter.settings import Retries, WorkerConfig
from skitter.spider.importing import find_spider, import_target


@pytest.mark.parametrize(("user", "status"), [("dear", 200), ("cheap", 403), ("", 403)])
async def test_it_lets_one_of_two_proxies_in(shop, user, status):
    credentials = b64encode(f"{user}:".encode()).decode()
    async with Wire(shop.port) as wire:
        wire.send(head(f"http://{HOST}/3", proxy_authorization=f"Basic {credentials}"))
        assert (await wire.read()).status == status


async def test_a_crawl_gets_every_page_though_it_is_banned_at_first(shop, server, job, monkeypatch):
    monkeypatch.setenv("SKITTER_DEMO_URL", shop.url)
    module, where, name = import_target(RARE)
    spider = find_spider(module, where, name)
    patient = replace(rude(), retries=Retries(max_retries=10, base_s=0.01))
    frontier = await create_job(server, job, options=patient)
    await frontier.add([seed async for seed in spider.seeds()])
    async with open_worker(frontier, spider, WorkerConfig(proxies=module.PROXIES)) as worker:
        await worker.run()
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.items) == (BOOKS + 1, 0, BOOKS)
