"""A spider that stores every page, and does on some what their names say."""

from __future__ import annotations

import os
import sys
from typing import Any

from skitter import Limits, Politeness, Retries, Spider
from skitter.spider.default import describe_page

spider = Spider(
    "hostile",
    start=[os.environ["HOSTILE_SITE"] + "/"],
    politeness=Politeness(delay_s=0, max_in_flight=8),
    retries=Retries(max_retries=1, base_s=0.1),
    limits=Limits(max_links_per_page=100, max_items_per_page=1000),
)


@spider.page
async def store(page):
    name = page.url.rpartition("/")[2]
    if name in ODD:
        for one in misbehave(name, page):
            yield one
    else:
        async for one in describe_page(page):
            yield one


ODD = {
    "yields-a-million-items",
    "yields-for-ever",
    "yields-a-huge-item",
    "yields-half-a-character",
    "yields-what-is-nested",
    "follows-with-a-lot-of-meta",
    "exits",
}


def misbehave(name, page):
    if name == "yields-a-million-items":
        yield from ({"n": n} for n in range(1_100_000))
    elif name == "yields-for-ever":
        while True:
            yield {"url": page.url}
    elif name == "yields-a-huge-item":
        yield {"url": page.url, "text": "x" * 9_000_000}
    elif name == "yields-half-a-character":
        yield {"url": page.url, "text": "\ud83d"}
    elif name == "yields-what-is-nested":
        yield {"url": page.url, "text": nested(850)}
    elif name == "follows-with-a-lot-of-meta":
        yield page.follow("/good/with-meta", meta={"text": "x" * 300_000})
    elif name == "exits":
        sys.exit(2)


def nested(levels):
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value
