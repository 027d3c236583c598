"""Which worker renders what: a lane for browsers, and render="auto", which learns by shape."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from browser.web import LATE, html
from conftest import rude
from fetch.site import Site, serve
from needs import need
from skitter import Page, Render, Request, Spider
from skitter.engine.assembly import open_worker
from skitter.engine.loop import Worker
from skitter.engine.parts import WorkerOptions
from skitter.frontier.audit.auditor import audit
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import read_items
from skitter.frontier.jobs import create_job
from skitter.frontier.transport.connection import Server
from skitter.settings import BrowserOptions, FetchOptions, WorkerConfig, Workers
from waiting import until_async

PRICE = '<b class="price">12</b>'


def make_spider(site: Site) -> Spider:
    spider = Spider("shop", [site.url()])

    @spider.page
    def listing(page: Page):
        yield from page.follow_all("a", product)

    @spider.page(render=Render(wait_for=".price"))
    def product(page: Page):
        yield {"url": page.url}

    @spider.page(render=Render(wait_for=".price, .none", auto=True))
    def maybe(page: Page):
        if price := page.css_first(".price", None):
            yield {"url": page.url, "price": price.text()}

    return spider


@asynccontextmanager
async def working(frontier: Frontier, spider: Spider, only: str) -> AsyncIterator[Worker]:
    config = WorkerConfig(
        workers=Workers(only=only, concurrency=4),  # type: ignore[arg-type]
        browser=BrowserOptions(concurrency=2),
        fetch=FetchOptions(obey_robots=False),
        keep_alive=True,
    )
    options = WorkerOptions.of(config, watch_signals=False)
    async with open_worker(frontier, spider, config, options=options) as worker:
        running = asyncio.create_task(worker.run())
        yield worker
        worker.stop()
        await running


def asked(site: Site, start: str) -> tuple[list[str], list[str]]:
    """What the client asked for, and what the browser did."""
    heads = [head for head in site.requests if head.split()[1].startswith(start.encode())]
    by_browser = [b"sec-ch-ua:" in head.lower() for head in heads]
    paths = [head.split()[1].decode() for head in heads]
    pairs = list(zip(paths, by_browser, strict=True))
    return [path for path, it in pairs if not it], [path for path, it in pairs if it]


async def over(frontier: Frontier) -> None:
    async def is_crawled() -> bool:
        return (await frontier.stats()).crawled

    await until_async(is_crawled)


async def test_pages_for_a_browser_are_rendered_by_workers_that_serve_its_lane(
    server: Server, job: str
) -> None:
    need("chromium")
    pages = {f"/js/{i}": html(LATE) for i in range(30)}
    pages |= {f"/plain/{i}": html(PRICE) for i in range(30)}
    pages |= {f"/none/{i}": html("<p class=none>nothing") for i in range(30)}
    pages["/"] = html("<a href=/product/1>1</a><a href=/product/2>2</a>")
    pages |= {f"/product/{i}": html(LATE) for i in range(4)}
    frontier = await create_job(server, job, options=rude())
    async with serve(pages) as site:
        spider = make_spider(site)

        async def push(kind: str, numbers: range, handler: str) -> None:
            urls = [site.url(f"/{kind}/{i}") for i in numbers]
            await frontier.add([Request(url=url, handler=handler) for url in urls])

        async with (
            working(frontier, spider, "http") as http,
            working(frontier, spider, "browser"),
        ):
            await frontier.add([seed async for seed in spider.seeds()])
            await push("product", range(3, 4), "product")  # as others push: without a lane
            for kind in ("js", "plain", "none"):
                await push(kind, range(4), "maybe")
            await over(frontier)
            http.attempts.parts.adaptive._known.clear()  # as after two seconds
            learned = {kind: asked(site, f"/{kind}/") for kind in ("js", "plain", "none")}
            site.requests.clear()
            for kind in ("js", "plain", "none"):
                await push(kind, range(4, 12), "maybe")
            await over(frontier)
            later = {kind: asked(site, f"/{kind}/") for kind in ("js", "plain", "none")}
        products = asked(site, "/product/")
        items = {one.item["url"] async for some in read_items(frontier) for one in some}
    assert {kind: tuple(map(len, both)) for kind, both in learned.items()} == {
        "js": (4, 4),
        "plain": (4, 0),
        "none": (4, 4),
    }
    # One of ten pages is tried the other way; how many of these eight depends on the port.
    assert len(later["js"][1]) == 8
    assert len(later["js"][0]) <= 4
    assert (len(later["plain"][0]), len(later["plain"][1])) == (8, 0)
    assert len(later["none"][0]) == 8
    assert len(later["none"][1]) <= 4
    assert not products[0]
    expected = {f"/{kind}/{i}" for kind in ("js", "plain") for i in range(12)}
    expected |= {f"/product/{i}" for i in range(1, 4)}
    assert items == {site.url(path) for path in expected}
    assert (await audit(frontier)).clean


async def test_a_spider_puts_its_requests_into_the_lane_of_their_handler() -> None:
    async with serve({}) as site:
        spider = make_spider(site)
        lanes = {
            name: spider.in_lane(Request(url=site.url(), handler=name)).lane
            for name in spider.handlers
        }
    assert lanes == {"listing": "", "product": "browser", "maybe": ""}
