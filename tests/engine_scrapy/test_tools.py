"""The commands of skitter on a Scrapy crawl, items for its loader, numbers for its watchers."""

from __future__ import annotations

import json

import pytest

from bookshop import expected_items
from skitter.frontier.items import read_items
from skitter.frontier.workers import read_log

pytestmark = pytest.mark.timeout(300)


async def stored(frontier):
    return [result async for page in read_items(frontier) for result in page]


def test_commands_know_a_scrapy_crawl_and_items_come_out_of_the_stream(open_shop, make_cluster):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    node = cluster.start(
        ITEM_PIPELINES=json.dumps({"skitter.scrapy.ItemPipeline": 300}),
        STATS_CLASS="skitter.scrapy.RedisStatsCollector",
        STATS_KEY=f"{cluster.job}:stats",
    )
    assert node.finish() == "finished"

    assert (cluster.stats().crawled, cluster.stats().dead) == (True, 10)
    cluster.assert_accounted_for()
    page = shop.url.rstrip("/") + "/books/out-of-print-1"
    why = cluster.json("why", cluster.job, page)
    assert (why["state"], why["last_error"], why["host"]) == ("dead", "404 Not Found", "localhost")
    assert why["found_on"].startswith(shop.url)
    said = [event.text for event in cluster.ask(read_log)]
    assert f"{page} became a dead letter: 404 Not Found" in said

    upcs = sorted(result.item["upc"] for result in cluster.ask(stored))
    assert upcs == sorted(one["upc"] for one in expected_items(shop.expected))
    assert (cluster.stats().items, cluster.stats().stored) == (len(upcs), 0)

    stats = cluster.command("HGETALL", f"{cluster.job}:stats")
    assert int(stats[b"item_scraped_count"]) == len(upcs)
    assert stats[b"finish_reason"] == b"finished"
    assert float(stats[b"elapsed_time_seconds"]) > 0

    pushed = cluster.json("push", cluster.job, shop.url, page)  # fetched by the node
    assert (pushed["new"], pushed["seen"]) == (0, 2)

    revived = cluster.json("dead", "retry", cluster.job, page)
    assert revived["retried"] == 1
    assert cluster.start().finish() == "finished"
    assert cluster.dead()[page] == "404 Not Found"
