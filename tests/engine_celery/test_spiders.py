"""A spider does for callers what it does in a crawl of its own."""

from __future__ import annotations

import pytest

from engine_celery.test_tasks import WAIT_S
from skitter.celery import map_reduce
from skitter.celery.results import ScrapeFailed
from skitter.frontier.items import read_rejected
from waiting import until

MEMBER = "engine_celery.helper_spiders:member"
WELCOME = {"title": "Good evening, reader.", "pages": 1}


def rejected(station, job):
    return [one.field for one in station.on_job(job, lambda frontier: read_rejected(frontier, 9))]


def test_a_page_that_a_caller_asks_for_is_fetched_as_its_spider_says(busy):
    page = busy.scrape.delay(busy.page("/members/?asked"), spider=MEMBER)

    assert page.get(timeout=WAIT_S) == [WELCOME]

    asked = [one for one in busy.shop.log() if one.target == "/members/?asked"]
    assert {one.user_agent for one in asked} == {"reader/1.0"}
    until(lambda: rejected(busy, "scrape-member") == ["pages"])


def test_a_task_whose_page_has_nothing_to_say_fails_with_the_reason(busy):
    nothing = busy.scrape.delay(busy.page("/members/?strict"), spider=MEMBER)
    no_page = busy.scrape.delay(busy.page("/robots.txt"), spider=MEMBER)

    with pytest.raises(ScrapeFailed, match="its item was rejected: Expected `int`, got `str`"):
        nothing.get(timeout=WAIT_S)
    with pytest.raises(ScrapeFailed, match="text/plain"):
        no_page.get(timeout=WAIT_S)


def test_many_pages_and_a_map_have_the_same_spider(busy):
    urls = [busy.page(f"/members/?{name}") for name in ("many", "strict&many")]
    busy.scrape_many(urls, job="members", spider=MEMBER).get(timeout=WAIT_S)

    until(lambda: busy.done("members") == 2)
    assert busy.stats("members").items == 1
    until(lambda: rejected(busy, "members") == ["pages", "pages"])

    summary = map_reduce(urls, busy.summarize, app=busy.app, spider=MEMBER).get(timeout=WAIT_S)
    assert (summary["successful"], summary["failed"]) == (1, 1)
    assert "its item was rejected" in summary["errors"][0]["error"]


def test_a_crawl_has_the_name_that_its_spider_gives_itself(busy):
    busy.crawl.delay(MEMBER, job="evening").get(timeout=WAIT_S)

    until(lambda: busy.done("evening") == 1)
    asked = [one for one in busy.shop.log() if one.target == "/members/"]
    assert {one.user_agent for one in asked} == {"reader/1.0"}
