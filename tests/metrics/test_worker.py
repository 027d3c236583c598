"""A crawl measures itself: what its worker told is what happened."""

from __future__ import annotations

import pytest

from skitter.frontier.admin.jobs import create_job
from skitter.frontier.metrics import read_history, read_table
from skitter.settings import JobOptions, Politeness, Retries
from skitter.spider import Spider
from web import Answer, serve_web

OPTIONS = JobOptions(
    politeness=Politeness(delay_s=0, max_in_flight=8, max_delay_s=0.01),
    retries=Retries(base_s=0.01, max_retries=1),
)
BODY = "<title>x</title>"


@pytest.fixture
async def frontier(server, job):
    return await create_job(server, job, options=OPTIONS)


def spider_of(job, urls, items=()):
    spider = Spider(job, urls)

    @spider.page
    def page(page):
        yield from items

    return spider


async def total(frontier, *names):
    history = await read_history(frontier, names, since_s=300)
    return [sum(n or 0 for n in history.series[name]) for name in names]


def site(asked):
    if asked.path == "/busy":
        return Answer(status=503)
    return Answer(BODY, status=404 if asked.path == "/missing" else 200)


async def test_pages_items_outcomes_and_statuses_are_counted(frontier, job):
    async with serve_web(site) as web:
        paths = ["/1", "/2", "/3", "/missing", "/busy"]
        spider = spider_of(job, [web.url(path) for path in paths], [{"n": 1}, {"n": 2}])
        await web.crawl(frontier, spider)
        host = f"shop.test:{web.port}"

    names = ["pages", "items", "retries", "dead", "bytes", "fetch.ok", "fetch.http_error"]
    assert await total(frontier, *names) == [3, 6, 1, 2, 4 * len(BODY), 3, 3]
    assert await total(frontier, "status.2xx", "status.4xx", "status.5xx") == [3, 1, 2]
    [row] = await read_table(frontier, "host")
    assert (row.name, row.ok, row.failed, row.bytes) == (host, 3, 3, 4 * len(BODY))
    assert [row.name for row in await read_table(frontier, "route")] == ["direct"]
    assert {row.name: row.ok + row.failed for row in await read_table(frontier, "status")} == {
        "2xx": 3,
        "4xx": 1,
        "5xx": 2,
    }


async def test_fetches_are_timed(frontier, job):
    async with serve_web(site) as web:
        await web.crawl(frontier, spider_of(job, [web.url("/1")]))

    history = await read_history(frontier, ["fetch"], since_s=300)

    [median] = {one for one in history.quantiles["fetch"]["p50"] if one is not None}
    assert median > 0


async def test_a_request_without_an_answer_counts_as_an_error(frontier, job):
    async with serve_web(site) as web:
        url = web.url("/1")
    async with serve_web(site) as web:
        await web.crawl(frontier, spider_of(job, [url]))

    assert await total(frontier, "fetch.error", "status.none", "pages") == [2, 2, 0]
