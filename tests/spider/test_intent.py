"""What the source of a handler shows: items it yields, and what it forgets to yield."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from skitter import Request, Spider
from skitter.spider.source import not_yielded, wants_items


@dataclass
class Book:
    title: str


def yields_a_dict(page):
    yield {"title": page.url}


async def yields_a_variable(page):
    item = {"title": page.url}
    if item:
        yield item


def yields_a_class(page):
    yield Book(page.url)


def returns_a_list(page):
    return [dict(title=url) for url in page.links()]


def forgets_the_yield(page):
    yield from page.follow_all()
    {"title": page.url}  # noqa: B018


def forgets_to_follow(page):
    page.follow_all("a")


def follows(page):
    yield from page.follow_all("a", "other", meta={"a": 1})
    for link in page.links():
        request = page.follow(link)
        yield request
    yield Request(url="https://a.test/")


async def stores_by_itself(page):
    def row():
        return {"title": page.url}

    page.log.info(row())


@pytest.mark.parametrize(
    ("handler", "wanted", "forgotten"),
    [
        (yields_a_dict, True, None),
        (yields_a_variable, True, None),
        (yields_a_class, True, None),
        (returns_a_list, True, None),
        (forgets_the_yield, True, '{"title": page.url}  # noqa: B018'),
        (forgets_to_follow, False, 'page.follow_all("a")'),
        (follows, False, None),
        (stores_by_itself, False, None),
        (print, False, None),  # without a source
    ],
)
def test_only_what_is_certain_counts(handler, wanted, forgotten):
    spider = Spider("w", ["https://a.test/"])
    spider.handlers["handler"] = handler

    assert wants_items(spider) is wanted
    line = not_yielded(handler)
    assert (line.text if line else None) == forgotten


def test_a_declared_type_and_hooks_on_items_show_it_too():
    assert wants_items(Spider("w", ["https://a.test/"], item=Book))
    spider = Spider("w", ["https://a.test/"])
    spider.transform(lambda item: item)
    assert wants_items(spider)
