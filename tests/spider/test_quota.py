"""What one page may bring, and what becomes of the rest."""

from __future__ import annotations

import pytest

from skitter.settings import Limits
from skitter.spider import Spider
from skitter.spider.page import Page
from skitter.spider.quota import MAX_PAGE_BYTES, Quota
from skitter.spider.run import run_handler

URL = "https://a.test/"
LIMITS = Limits(max_items_per_page=3, max_links_per_page=2)


def make_spider(handler):
    spider = Spider("s", start=[URL], limits=LIMITS)
    spider.page(handler)
    return spider


async def run(handler, limits=None):
    return await run_handler(make_spider(handler), Page.of("x", url=URL), limits=limits)


def many(page):
    for n in range(5):
        yield {"n": n}
        yield page.follow(f"/{n}")


async def test_what_is_over_the_caps_is_left_out_and_told():
    outcome = await run(many)

    assert [item["n"] for item in outcome.items] == [0, 1, 2]
    assert [link.url for link in outcome.requests] == [URL + "0", URL + "1"]
    assert outcome.exceeded == (
        "2 items over max_items_per_page=3 were left out; "
        "3 links over max_links_per_page=2 were left out"
    )


async def test_the_limits_of_the_job_win_over_those_of_the_spider():
    outcome = await run(many, Limits())

    assert (len(outcome.items), len(outcome.requests), outcome.exceeded) == (5, 5, "")


async def test_a_link_that_comes_after_too_many_items_is_still_followed():
    def handler(page):
        yield from ({"n": n} for n in range(10))
        yield page.follow("/next")

    outcome = await run(handler)

    assert [link.url for link in outcome.requests] == [URL + "next"]


async def test_links_to_other_places_of_a_page_are_one_new_link():
    def index(page):
        yield from (page.follow(f"/long#{n}") for n in range(10))
        yield page.follow("/next")

    outcome = await run(index)

    assert [link.url for link in outcome.requests] == [URL + "long#0", URL + "next"]
    assert (outcome.exceeded, outcome.links) == ("", 11)


@pytest.mark.parametrize("what", [{"n": 1}, None, "link"])
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_handler_that_yields_for_ever_is_stopped_and_closed(kind, what):
    drawn, closed = 0, []

    def output(page):
        nonlocal drawn
        drawn += 1
        return page.follow("/") if what == "link" else what

    def plain(page):
        try:
            while True:
                yield output(page)
        finally:
            closed.append(1)

    async def asynchronous(page):
        try:
            while True:
                yield output(page)
        finally:
            closed.append(1)

    outcome = await run(plain if kind == "plain" else asynchronous)

    assert drawn == 50  # ten times what a page may bring
    assert closed == [1]
    assert "the handler was stopped" in outcome.exceeded


async def test_an_async_handler_that_fails_half_way_is_closed():
    closed = []

    async def handler(page):
        try:
            yield "nonsense"
        finally:
            closed.append(1)

    with pytest.raises(Exception, match="neither an item nor a request"):
        await run(handler)

    assert closed == [1]


async def test_items_of_a_page_are_bounded_in_bytes():
    text = "x" * (6 * 2**20)

    outcome = await run(lambda_of([{"n": n, "text": text} for n in range(3)]))

    assert [item["n"] for item in outcome.items] == [0, 1]
    assert f"1 items over {MAX_PAGE_BYTES:,} bytes" in outcome.exceeded


async def test_links_of_a_page_are_bounded_in_bytes():
    def handler(page):
        for n in range(100):
            yield page.follow(f"/{n}", meta={"text": "x" * 250_000})

    outcome = await run(handler, Limits())

    assert len(outcome.requests) == MAX_PAGE_BYTES // 250_000
    assert "links over" in outcome.exceeded


def test_a_quota_that_was_not_used_up_says_nothing():
    quota = Quota(LIMITS)

    assert quota.outputs_left > 1
    quota.outputs_left -= 1
    assert quota.counts_item()
    assert quota.takes_item(100)
    assert quota.takes_link(100)
    assert quota.exceeded == ""


def lambda_of(items):
    def handler(page):
        return items

    return handler
