"""Run by benchmarks in Crawlee's own environment: the spider of the catalogue. Not a module of
Skitter.

Takes one JSON argument {seed, concurrency, out}, prints one JSON object.
"""

import asyncio
import json
import logging
import sys

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler
from crawlee.storage_clients import MemoryStorageClient

TASK = json.loads(sys.argv[1])


async def crawl():
    many = TASK["concurrency"]
    crawler = ParselCrawler(
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=many, max_concurrency=many, desired_concurrency=many
        ),
        configure_logging=False,
        statistics_log_format="inline",
    )

    @crawler.router.default_handler
    async def shelf(context):
        await context.enqueue_links(selector="h3 a", label="product")
        await context.enqueue_links(selector="a.next")

    @crawler.router.handler("product")
    async def product(context):
        page = context.selector
        cells = {row.css("th::text").get(): row.css("td::text").get() for row in page.css("tr")}
        await context.push_data(
            {
                "name": page.css("h1::text").get(),
                "sku": cells["SKU"],
                "price": float(page.css(".price::text").get().strip("$")),
                "stock": int(cells["Stock"]),
                "brand": cells["Brand"],
                "rating": float(page.css(".rating::attr(data-stars)").get()),
                "weight": cells["Weight"],
                "colour": cells["Colour"],
                "breadcrumb": " > ".join(page.css("nav a::text").getall()),
                "description": page.css(".description::text").get(),
            }
        )

    await crawler.run([TASK["seed"]])
    await crawler.export_data(TASK["out"])


logging.disable(logging.CRITICAL)
asyncio.run(crawl())
sys.stdout.write("{}\n")
