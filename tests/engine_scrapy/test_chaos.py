"""The slow proof: nodes killed at random, a server that goes away, the real scrapy-redis."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from skitter.bench.peers import SCRAPY_REDIS, environment
from skitter.demo.site import fetched_twice
from skitter.valkey import start, stop

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]


def test_four_nodes_without_trouble(open_shop, make_cluster):
    shop = open_shop(books=400, latency_s=0.02)
    cluster = make_cluster(shop)

    nodes = [cluster.start(CONCURRENT_REQUESTS_PER_DOMAIN=32) for _ in range(4)]

    assert {node.finish() for node in nodes} == {"finished"}
    cluster.assert_complete()
    assert fetched_twice(shop.log()) == []
    assert all(node.stat("scheduler/dequeued") > 20 for node in nodes)


@pytest.mark.parametrize("seed", range(3))
def test_four_nodes_of_which_many_are_killed(open_shop, make_cluster, until, seed):
    chance = random.Random(seed)
    shop = open_shop(books=400, latency_s=0.05)
    cluster = make_cluster(shop)
    settings = {"SKITTER_LEASE_S": 3, "CONCURRENT_REQUESTS_PER_DOMAIN": 32}
    nodes = [cluster.start(**settings) for _ in range(4)]

    for _ in range(6):
        until(lambda: len(cluster.items()) > 20)
        asked = len(shop.log())
        until(lambda asked=asked: len(shop.log()) > asked + 15 or cluster.stats().crawled)
        victim = nodes.pop(chance.randrange(len(nodes)))
        victim.kill()
        nodes.append(cluster.start(**settings))

    for node in nodes:
        assert node.finish() == "finished"
    cluster.assert_complete()
    assert cluster.stats().lost > 0


def test_a_server_that_goes_away_for_longer_than_a_lease(open_shop, make_cluster, until, short_dir):
    directory = short_dir / "away"
    server = start(directory)
    try:
        shop = open_shop(books=200, latency_s=0.05)
        cluster = make_cluster(shop, url=server.url)
        nodes = [cluster.start(SKITTER_LEASE_S=5, CONCURRENT_REQUESTS=8) for _ in range(2)]
        until(lambda: len(cluster.items()) > 10)

        stop(directory)
        until(lambda: all("Nothing is lost; trying again" in node.log for node in nodes))
        start(directory)

        assert {node.finish() for node in nodes} == {"finished"}
        assert all("the server is back" in node.log for node in nodes)
        cluster.assert_complete()
    finally:
        stop(directory)


def test_a_queue_that_the_real_scrapy_redis_left_is_taken_over(
    open_shop, make_cluster, until, tmp_path
):
    shop = open_shop(books=100, latency_s=0.05)
    cluster = make_cluster(shop)
    python = environment("scrapy-redis", SCRAPY_REDIS)
    script = tmp_path / "theirs.py"
    script.write_text(
        THEIRS.format(socket=cluster.server_url, seed=shop.url, path=str(Path(__file__).parents[2]))
    )
    theirs = subprocess.Popen([python, script], env={**os.environ}, stderr=subprocess.DEVNULL)
    until(lambda: len(shop.log()) > 30)
    theirs.terminate()  # it hands in what is under way
    theirs.wait()
    done = {json.loads(one)["url"] for one in cluster.command("LRANGE", "theirs:items", 0, -1)}
    queued = cluster.command("ZCARD", "theirs:requests")
    assert queued > 0
    before = len(shop.log())

    adopted = cluster.json(
        "adopt", "scrapy-redis", "--spider", "theirs", "--job", cluster.job, "--trust-pickle"
    )
    assert (adopted["entries"], adopted["queued"], adopted["dead"]) == (queued, queued, 0)
    file = cluster.folder / "ours.py"
    file.write_text(OURS.format(seed=shop.url))
    node = cluster.start("runspider", str(file), SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    cluster.assert_accounted_for()
    ours = {one["url"] for one in cluster.items()}
    assert len(ours | done) >= len(shop.expected.expected_items())
    again = {entry.target for entry in shop.log()[before:]} & {
        url.removeprefix(shop.url.rstrip("/")) for url in done
    }
    assert again == set()


SPIDER = """
class Theirs(Spider):
    name = "theirs"
    allowed_domains = ["localhost"]
    start_urls = [{seed!r}]

    def parse(self, response):
        for link in response.css("article.book h3 a"):
            yield response.follow(link, self.book)
        for link in response.css("nav a:not([href^=mailto])"):
            yield response.follow(link, self.parse)

    def book(self, response):
        yield {{"url": response.url}}
"""
OURS = "from scrapy import Spider\n" + SPIDER
THEIRS = (
    """
from scrapy import Spider
from scrapy.crawler import CrawlerProcess
"""
    + SPIDER
    + """
process = CrawlerProcess(
    {{
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "ITEM_PIPELINES": {{"scrapy_redis.pipelines.RedisPipeline": 300}},
        "SCHEDULER_PERSIST": True,
        "REDIS_URL": {socket!r},
        "CONCURRENT_REQUESTS": 2,
        "LOG_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
    }}
)
process.crawl(Theirs)
process.start()
"""
)
