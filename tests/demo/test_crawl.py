"""A complete and polite crawl comes home with exactly what the shop expects."""

from __future__ import annotations

import asyncio

import pytest

from bookshop import (
    expected_dead,
    expected_disallowed,
    expected_done,
    expected_items,
    fetched_twice,
    trespasses,
)
from demo.crawler import canonical, crawl
from skitter.demo.site import BookShop, behaviour


def by_upc(items):
    return sorted(items, key=lambda item: item["upc"])


@pytest.mark.parametrize("books", [50, 700])
async def test_a_plain_crawl_finds_every_book_once(books):
    async with BookShop(books=books) as shop:
        found = await asyncio.to_thread(crawl, shop.url)
        done, dead = expected_done(shop), expected_dead(shop)
        disallowed = set(expected_disallowed(shop))

    assert by_upc(found.items) == by_upc(expected_items(shop))
    assert found.dead == {canonical(url) for url in dead}
    assert found.done == {canonical(url) for url in done}
    assert len(found.done) == len(done)
    carts = {url for url in found.disallowed if "/cart/add?" in url}
    assert found.disallowed - carts == disallowed
    assert fetched_twice(shop.log.entries) == []
    assert trespasses(shop.log.entries) == []
    assert [entry.target for entry in shop.log.entries].count("/robots.txt") == 1
    assert found.outside == {
        "mailto:hello@lantern.example",
        "https://friends-of-the-lantern.example/",
    }


async def test_a_plain_crawl_meets_every_trouble():
    async with BookShop(books=50) as shop:
        await asyncio.to_thread(crawl, shop.url)

    asked = {entry.page for entry in shop.log.entries}
    assert set(behaviour.write_scripts(shop.catalogue)) <= asked
    statuses = {entry.status for entry in shop.log.entries}
    assert statuses == {200, 301, 302, 308, 404, 410, 500, 503}
    assert sum(not entry.complete for entry in shop.log.entries) == len(behaviour.CUT_ONCE)
