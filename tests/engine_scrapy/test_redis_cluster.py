"""Scrapy's nodes on a Redis cluster: the crawl and its feed work as they do on one server."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from chaos.servers import Node, join, running
from skitter.embedded import server_binary

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster_url():
    base = Path(tempfile.mkdtemp(prefix="sky", dir="/tmp"))
    nodes = [
        Node(server_binary(), base / str(number), **{"cluster-enabled": "yes"})
        for number in range(3)
    ]
    with running(nodes):
        asyncio.run(join(nodes))
        yield f"redis+cluster://127.0.0.1:{nodes[0].port}"
    shutil.rmtree(base)


def test_two_nodes_crawl_the_shop_on_a_cluster(cluster_url, open_shop, make_cluster):
    cluster = make_cluster(open_shop(books=100), url=cluster_url)

    counted = {
        "STATS_CLASS": "skitter.scrapy.RedisStatsCollector",
        "STATS_KEY": f"{cluster.job}:stats",
    }

    nodes = [cluster.start(SCHEDULER_PERSIST=True, **counted) for _ in range(2)]

    assert {node.finish() for node in nodes} == {"finished"}
    cluster.assert_complete()
    scraped = cluster.command("HGET", f"{cluster.job}:stats", "item_scraped_count")
    assert int(scraped) == len(cluster.items())


def test_a_feed_is_read_wherever_its_keys_are(cluster_url, open_shop, make_cluster):
    shop = open_shop(books=50)
    cluster = make_cluster(shop, url=cluster_url)
    for n in range(20):
        cluster.push(f"{shop.url}?{n}")
    tagged = f"feed:{{{cluster.job}}}"
    cluster.command("ZADD", tagged, 3, f"{shop.url}?scored")
    idle = {"SCHEDULER_PERSIST": True, "MAX_IDLE_TIME_BEFORE_CLOSE": 2}

    nodes = [cluster.run_odd("fed", **idle) for _ in range(2)]
    other = cluster.run_odd("fed", **idle, REDIS_START_URLS_KEY=tagged)

    assert {node.finish() for node in (*nodes, other)} == {"finished"}
    assert sorted(shop.pages()) == sorted([f"/?{n}" for n in range(20)] + ["/?scored"])
    assert cluster.dead() == {}
    cluster.assert_accounted_for()
