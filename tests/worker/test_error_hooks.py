"""@spider.on_error: once for a page that is given up, whatever the reason."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from conftest import rude
from skitter.engine.assembly import open_worker
from skitter.errors import ConnectFailed, FetchTimeout, NoPage
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.frontier.jobs import create_job
from skitter.model import Request, Response
from skitter.settings import Retries, WorkerConfig
from skitter.spider import HandlerError, Spider

GOOD, GONE, BUSY = (f"https://a.test/{name}" for name in ("good", "gone", "busy"))
SLOW, WRONG = (f"https://a.test/{name}" for name in ("slow", "wrong"))
OUTSIDE, CLOSED = "https://b.test/outside", "https://c.test/closed"
PAGES: dict[str, bytes | Response | Exception] = {
    "https://a.test/robots.txt": b"",
    "https://b.test/robots.txt": ConnectFailed(OUTSIDE, "nothing answers"),
    "https://c.test/robots.txt": Response(
        url="", status=200, headers=(), body=b"User-agent: *\nDisallow: /"
    ),
    GOOD: b"<h1>good</h1>",
    WRONG: b"<p>no heading</p>",
    BUSY: Response(url=BUSY, status=500, headers=(), body=b"oops"),
    SLOW: FetchTimeout(SLOW, "too slow"),
}


@pytest.fixture
async def frontier(server, job):
    retries = Retries(max_retries=1, base_s=0.01, cap_s=0.01)
    return await create_job(server, job, options=replace(rude(), retries=retries))


async def crawl(frontier, spider, urls) -> None:
    spider.page(heading)
    await frontier.add([Request(url=url) for url in urls])
    fetcher = StaticFetcher(PAGES)
    async with (
        asyncio.timeout(60),
        open_worker(frontier, spider, WorkerConfig(), fetcher=fetcher) as worker,
    ):
        await worker.run()


def heading(page):
    yield {"title": page.css_first("h1").text()}


async def test_it_is_called_once_for_every_page_that_is_given_up(frontier):
    spider = Spider("w", ["https://a.test/"])
    told: list[Any] = []
    texts: dict[str, str] = {}
    attempts: list[str] = []

    @spider.on_error
    def given_up(request, error, response):
        told.append((request.url, type(error), response and response.status))

    @spider.on_error
    async def as_before(request, error):
        await asyncio.sleep(0)
        assert request.url not in texts
        texts[request.url] = str(error)

    @spider.on_error(every_attempt=True)
    def each(request, error, response):
        attempts.append(request.url)

    await crawl(frontier, spider, [GOOD, GONE, BUSY, SLOW, WRONG, OUTSIDE, CLOSED])

    assert sorted(told) == [
        (BUSY, NoPage, 500),
        (GONE, NoPage, 404),
        (SLOW, FetchTimeout, None),
        (WRONG, HandlerError, 200),
        (OUTSIDE, NoPage, None),
        (CLOSED, NoPage, None),
    ]
    assert texts[BUSY] == f"{BUSY}: 500 Internal Server Error"
    assert "nothing on the page matches 'h1'" in texts[WRONG]
    assert all("robots.txt" in texts[url] for url in (OUTSIDE, CLOSED))
    assert len(texts) == 6
    assert sorted(attempts) == [BUSY, BUSY, GONE, SLOW, SLOW, WRONG, OUTSIDE, OUTSIDE, CLOSED]
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.retried) == (1, 6, 3)
