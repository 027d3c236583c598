"""The demo's spider on the real client: a worker without a frontier, wave by wave."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

import skitter.demo
from bookshop import (
    expected_dead,
    expected_disallowed,
    expected_done,
    expected_items,
    fetched_twice,
)
from skitter.demo.site import BookShop, behaviour
from skitter.errors import BadResponse
from skitter.fetch.http.fetcher import HttpFetcher
from skitter.fetch.http.guard import Guard
from skitter.fetch.robots import fetch_robots
from skitter.model import Request, Response
from skitter.spider.importing import load_spider
from skitter.spider.page import Page
from skitter.spider.run import run_handler
from skitter.spider.spider import Spider
from skitter.urls import identify, join

BOOKS = f"{skitter.demo.__path__[0]}/books.py"
PATIENCE = 4


@dataclass
class Findings:
    items: list[dict[str, Any]] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    disallowed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)


async def fetch(fetcher: HttpFetcher, request: Request) -> Response:
    for _ in range(PATIENCE):
        try:
            response = await fetcher.fetch(request)
        except BadResponse:
            continue
        if response.status < 500:
            return response
    raise AssertionError(f"{request.url} does not get better")


async def crawl(spider: Spider, shop: BookShop) -> Findings:
    found, known = Findings(), {identify(shop.url).canonical}
    guard = Guard.for_seeds([shop.url])
    async with HttpFetcher(guard=guard) as fetcher:
        robots = await fetch_robots(fetcher, guard, shop.url, at=0.0)
        wave = [seed async for seed in spider.seeds()]
        while wave:
            answers = await asyncio.gather(*(fetch(fetcher, request) for request in wave))
            links = []
            for request, response in zip(wave, answers, strict=True):
                links += await take(spider, request, response, found)
            wave = []
            for link in links:
                target = identify(link.url).canonical
                if not robots.allows(link.url, "Skitter"):
                    found.disallowed.add(link.url)
                elif target not in known:
                    known.add(target)
                    wave.append(link)
    return found


async def take(
    spider: Spider, request: Request, response: Response, found: Findings
) -> list[Request]:
    page = identify(request.url).canonical
    if location := response.header("location"):
        target = join(request.url, location)
        assert target is not None
        (found.dead if target == request.url else found.done).add(page)
        return [msgspec.structs.replace(request, url=target)]
    if response.status != 200:
        found.dead.add(page)
        return []
    outcome = await run_handler(spider, Page(request, response))
    assert outcome.rejected == []
    found.done.add(page)
    found.items += outcome.items
    found.refused |= {url for url, _ in outcome.refused}
    return outcome.requests


async def test_the_spider_comes_home_with_exactly_what_the_shop_expects(shop, monkeypatch):
    monkeypatch.setenv("SKITTER_DEMO_URL", shop.url)
    found = await crawl(load_spider(BOOKS), shop)

    assert sorted(found.items, key=lambda item: item["upc"]) == sorted(
        expected_items(shop), key=lambda item: item["upc"]
    )
    assert found.done == set(expected_done(shop))
    assert found.dead == set(expected_dead(shop))
    assert found.disallowed == set(expected_disallowed(shop))
    assert found.refused == {
        "mailto:hello@lantern.example",
        "https://friends-of-the-lantern.example/",
    }
    assert fetched_twice(shop.log.entries) == []


def test_the_spider_begins_where_the_environment_says(monkeypatch):
    monkeypatch.setenv("SKITTER_DEMO_URL", "http://localhost:1234/")
    assert [seed.url for seed in load_spider(BOOKS).known_seeds] == ["http://localhost:1234/"]

    monkeypatch.delenv("SKITTER_DEMO_URL")
    assert [seed.url for seed in load_spider(BOOKS).known_seeds] == ["http://localhost:8000/"]


@pytest.mark.parametrize("url", [None, "http://elsewhere:1/"])
async def test_expectations_know_where_the_shop_is(shop, url):
    origin = (url or shop.url).rstrip("/")

    assert expected_dead(shop, url)[-1] == f"{origin}{behaviour.LOOP}"
    assert f"{origin}/books/%E6%9D%B1%E4%BA%AC%E3%81%AE%E9%9B%A8" in expected_done(shop, url)
