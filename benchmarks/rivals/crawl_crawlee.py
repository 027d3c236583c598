"""Run by benchmarks in Crawlee's own environment. Not a module of Skitter.

Takes one JSON argument {seed, pages, concurrency, parser}, prints one JSON object of figures.
"""

import asyncio
import json
import logging
import sys
import time

from crawlee import ConcurrencySettings
from crawlee.storage_clients import MemoryStorageClient

TASK = json.loads(sys.argv[1])
FIGURES = {"pages": 0, "last": 0.0}


def make_crawler():
    """The crawler and its title function; storage in memory, fixed concurrency."""
    if TASK["parser"] == "parsel":
        from crawlee.crawlers import ParselCrawler as Crawler

        def title(context):
            return context.selector.css("title::text").get()
    else:
        from crawlee.crawlers import BeautifulSoupCrawler as Crawler

        def title(context):
            return context.soup.title.string

    many = TASK["concurrency"]
    crawler = Crawler(
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=many, max_concurrency=many, desired_concurrency=many
        ),
        configure_logging=False,
        statistics_log_format="inline",
    )
    return crawler, title


async def crawl():
    crawler, title = make_crawler()

    @crawler.router.default_handler
    async def handle(context):
        await context.push_data({"title": title(context)})
        await context.enqueue_links()
        FIGURES["pages"] += 1
        FIGURES["last"] = time.perf_counter()

    started = time.perf_counter()
    await crawler.run([TASK["seed"]])
    return {"pages": FIGURES["pages"], "seconds": FIGURES["last"] - started}


logging.disable(logging.CRITICAL)
json.dump(asyncio.run(crawl()), sys.stdout)
