"""The pages that failed are kept for whoever repairs the spider: a few of each kind."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import msgspec

from skitter.cli.failed_pages import handle_again, trace_with_locals
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.frontier.dead import dead_letters
from skitter.frontier.records.failed import (
    FailedPage,
    FailedPages,
    failed_pages,
    find_failed,
    retry,
)
from skitter.frontier.records.health import Observed, column, keep_thresholds, observe
from skitter.model import Request, Response
from skitter.settings import ArchiveOptions, FetchOptions, QualityOptions, WorkerConfig
from skitter.spider import Spider
from skitter.spider.fixtures import as_page
from skitter.spider.page import Page

SITE = "https://shop.example"
HOSTILE = b"<script>document.title = 'run'</script><p>9"


@dataclass
class Book:
    price: float


def make_spider(url: str, divisor: int = 0) -> Spider:
    spider = Spider("shop", [url])

    @spider.page(item=Book)
    def page(page):
        if "/wrong" in page.url:
            yield {"price": "nine"}
            return
        number = int(page.url.rpartition("/")[2])
        yield {"price": number / divisor}

    return spider


async def crawl(frontier, spider, *paths, **options) -> None:
    config = WorkerConfig(fetch=FetchOptions(obey_robots=False), archive=ArchiveOptions(**options))
    headers = (("content-type", "text/html"), ("set-cookie", "id=secret"), ("x-api-key", "secret"))
    pages: dict[str, bytes | Response | Exception] = {
        f"{SITE}{path}": Response(url=f"{SITE}{path}", status=200, headers=headers, body=HOSTILE)
        for path in paths
    }
    await frontier.add([Request(url=url, meta={"token": "secret", "n": 1}) for url in pages])
    how = WorkerOptions.of(config, watch_signals=False)
    async with open_worker(
        frontier, spider, config, fetcher=StaticFetcher(pages), options=how
    ) as worker:
        await worker.run()


async def test_the_first_pages_of_each_kind_of_failure_are_kept_without_secrets(frontier):
    paths = [f"/{number}" for number in range(9)]
    await crawl(frontier, make_spider(SITE), *paths, "/wrong", failed_pages=3)

    kept = await failed_pages(frontier)
    reasons = sorted(page.reason.split(" (")[0] for page in kept)
    divided = "handler page failed: ZeroDivisionError: division by zero"
    assert reasons[:3] == [divided] * 3
    assert [reason[:9] for reason in reasons[3:]] == ["rejected:"]
    assert all(page.body == HOSTILE for page in kept)
    stored = msgspec.json.encode([msgspec.structs.replace(page, body=b"") for page in kept])
    assert b"secret" not in stored
    assert kept[0].request["meta"] == {"token": "***", "n": 1}


async def test_a_kept_page_fails_again_until_its_handler_is_repaired(frontier):
    await crawl(frontier, make_spider(SITE), "/8")
    kept = await find_failed(frontier, f"{SITE}/8")
    assert kept
    assert "ZeroDivisionError" in kept.traceback
    assert "skitter/spider/run.py" not in kept.traceback
    error = await handle_again(make_spider(SITE), as_page(kept))
    assert error
    assert "    number = 8" in list(trace_with_locals(error))
    assert await handle_again(make_spider(SITE, divisor=2), as_page(kept)) is None

    letters = [one async for one in dead_letters(frontier)]
    assert await retry(frontier, letters) == 1
    assert await failed_pages(frontier) == [], "there is room for others"


async def test_examples_of_what_got_worse_are_kept_though_their_pages_are_done(frontier, clock):
    await keep_thresholds(frontier, QualityOptions(min_pages=50))
    spider = Spider("shop", [SITE])

    @spider.page
    def page(page):
        if "/none/" not in page.url:
            yield {"title": "A", "price": None if "/cheap/" in page.url else 9}

    for kind, found in (("good", set()), ("cheap", {"price"}), ("none", {"price", "no item"})):
        await crawl(frontier, spider, *(f"/{kind}/{n}" for n in range(60)), failed_pages=3)
        clock.advance(60)  # the next begin another window
        kept = await failed_pages(frontier)
        assert {page.reason for page in kept} == {f"quality of page: {one}" for one in found}
    assert len(kept) == 6
    assert all(("/none/" in one.url) == one.reason.endswith("no item") for one in kept)
    assert (await frontier.stats()).dead == 0


async def test_an_example_of_what_is_counted_after_something_else_got_worse_is_kept(
    frontier, clock
):
    """A page may end between the two halves of a heartbeat, while an older finding stands."""
    await keep_thresholds(frontier, QualityOptions(min_pages=50))
    for columns in ({column("price", "number"): 60}, {}):
        await observe(frontier, [Observed("page", 60, 60, 0, columns)])
        clock.advance(60)
    about: dict[str, Any] = {"url": SITE, "at": 1.0, "status": 200, "headers": [], "body": b""}
    pages = FailedPages(most=3, max_mb=1)
    pages.recent.append(("page", [], lambda why: FailedPage(fingerprint="1", reason=why, **about)))

    await pages.send(frontier)
    assert await failed_pages(frontier) == []
    await observe(frontier, [Observed("page", 60, 0, 0, {})])
    await pages.send(frontier)

    assert [one.reason for one in await failed_pages(frontier)] == ["quality of page: no item"]


async def test_the_trees_of_pages_that_are_done_are_let_go(frontier):
    spider, config = make_spider(SITE, divisor=1), WorkerConfig()
    fetcher = StaticFetcher({f"{SITE}/{number}": HOSTILE for number in range(9)})
    await frontier.add([Request(url=url) for url in fetcher.pages])
    how = WorkerOptions.of(config, watch_signals=False)
    async with open_worker(frontier, spider, config, fetcher=fetcher, options=how) as worker:
        await worker.run()
        assert len(worker.attempts.parts.failed.recent) == 9
        gc.collect()  # of a page whose trial took too long, an exception may be in a cycle
        held = [one.url for one in gc.get_objects() if isinstance(one, Page)]

    assert [url for url in held if url.startswith(SITE)] == []


async def test_no_more_space_is_taken_than_is_allowed(frontier):
    await crawl(frontier, make_spider(SITE), "/1", "/2")
    sizes = [
        len(await frontier.home.command("HGET", "failed", page.fingerprint))
        for page in await failed_pages(frontier)
    ]
    assert len(sizes) == 2
    codes = await frontier.home.keep_failed(
        [("7", "other", b"x" * 9), ("8", "other", b"x")], most=9, max_bytes=sum(sizes) + 9
    )
    assert codes == [1, 0]
