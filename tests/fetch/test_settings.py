"""What is configured reaches the wire; another fetcher is one argument."""

from __future__ import annotations

import asyncio
import os
import sys

from fetch.site import reply, serve
from skitter import Page, Spider
from skitter.engine.assembly import open_worker
from skitter.fetch import StaticFetcher
from skitter.settings import WorkerConfig
from skitter.spider.seeding import offer_seeds


async def skitter(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "skitter", *words,
        env={k: v for k, v in os.environ.items() if not k.startswith("SKITTER_")},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_a_certificate_authority_can_be_set(tls, certificate):
    page = reply(b"<title>Ours</title>", "content-type: text/html")
    async with serve({"/": page}, tls=tls) as site:
        url = site.url(scheme="https")
        refused = await skitter("fetch", url)
        accepted = await skitter("fetch", url, "-s", f"fetch.ca_file={certificate}")

    assert refused[0] == 1
    assert "certificate" in refused[1]
    assert accepted[0] == 0, accepted[1]
    assert "Ours" in accepted[1]


async def test_another_fetcher_is_one_argument(frontier):
    spider = Spider("static", start=["https://shop.test/"])
    seen = []

    @spider.page
    def page(page: Page) -> None:
        seen.append(page.css_first("h1").text())

    fetcher = StaticFetcher({"https://shop.test/": b"<h1>from memory</h1>"})
    frontier.home.clock = None  # the real time: the worker waits for it
    await offer_seeds(frontier, spider)
    async with open_worker(frontier, spider, WorkerConfig(), fetcher=fetcher) as worker:
        await worker.run()

    assert seen == ["from memory"]
    assert fetcher.asked_urls == ["https://shop.test/robots.txt", "https://shop.test/"]
