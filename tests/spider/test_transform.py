"""What a transform makes of an item, and how one is found."""

from __future__ import annotations

import sys
import threading

import pytest

from skitter.errors import SpiderError
from skitter.spider import load_transform
from skitter.spider.transform import TransformFailed, chain

ITEM = {"title": " Emma ", "price": "9.99"}


def strip(item):
    return {**item, "title": item["title"].strip()}


async def price(item):
    return {**item, "price": float(item["price"])}


def twice(item):
    return [item, {**item, "copy": True}]


def nothing(item):
    return None


@pytest.mark.parametrize(
    ("transforms", "made"),
    [
        ([strip], {"title": "Emma", "price": "9.99"}),
        ([strip, price], {"title": "Emma", "price": 9.99}),
        ([nothing], None),
        ([nothing, strip], None),
        ([twice], [ITEM, {**ITEM, "copy": True}]),
        ([twice, nothing], []),
        (
            [strip, twice, price],
            [{"title": "Emma", "price": 9.99, **more} for more in ({}, {"copy": True})],
        ),
    ],
)
async def test_transforms_run_one_after_the_other(transforms, made):
    assert await run(transforms) == made


async def run(transforms):
    made = chain(transforms)(ITEM)
    return await made if price in transforms else made


@pytest.mark.parametrize("beside", [[], [price]])
async def test_one_that_raises_says_so_with_the_users_line(beside):
    def wrong(item):
        return item["isbn"]

    with pytest.raises(
        TransformFailed, match=r"transform wrong failed: KeyError: 'isbn' \(.*item\["
    ):
        await run([wrong, *beside])


@pytest.mark.parametrize("beside", [[], [price]])
async def test_one_that_calls_exit_fails_like_any_other(beside):
    def leave(item):
        sys.exit("no thanks")

    with pytest.raises(TransformFailed, match=r"transform leave failed: SystemExit: no thanks"):
        await run([leave, *beside])


async def test_a_plain_one_beside_an_async_one_does_not_hold_up_the_loop():
    threads = []

    def look(item):
        threads.append(threading.current_thread())
        return item

    await run([look, price])
    assert threads != [threading.current_thread()]


@pytest.mark.parametrize("returned", [3, "text", [{"n": 1}, 2]])
def test_what_is_no_item_is_refused(returned):
    with pytest.raises(TransformFailed, match=r"returned a (int|str)"):
        chain([lambda item: returned])(ITEM)


SPIDER = """
from skitter import Spider
spider = Spider("s", ["https://a.test/"])
@spider.page
def page(page): yield {}
"""


TRANSFORMS = """
@spider.transform
def one(item): return {"n": 1}
def two(item): return {"n": 2}
"""


def test_a_transform_is_found_in_a_spider_or_by_its_name(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(
        SPIDER
        + "@spider.transform\ndef one(item): return {'n': 1}\ndef two(item): return {'n': 2}\n"
    )

    assert load_transform(file)({}) == {"n": 1}
    assert load_transform(f"{file}:spider")({}) == {"n": 1}
    assert load_transform(f"{file}:two")({}) == {"n": 2}


def test_a_spider_without_one_is_told_what_to_write(tmp_path):
    file = tmp_path / "plain.py"
    file.write_text(SPIDER)

    with pytest.raises(SpiderError, match=r"has no transform: decorate a function with @spider.tr"):
        load_transform(file)
    with pytest.raises(SpiderError, match="there is no function or spider 'missing'"):
        load_transform(f"{file}:missing")
