"""The slow proof: nodes killed at random, a server that goes away, the real scrapy-redis."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter

import pytest

from benchmarks.peers import SCRAPY_REDIS, environment
from bookshop import expected_items, fetched_twice
from skitter.embedded import start, stop

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


@pytest.mark.parametrize("kind", ["plain", "with rules"])
def test_a_queue_that_the_real_scrapy_redis_left_is_taken_over(
    open_shop, make_cluster, until, tmp_path, kind
):
    spider = PLAIN if kind == "plain" else RULED
    shop = open_shop(books=100, latency_s=0.05)
    cluster = make_cluster(shop)
    python = environment("scrapy-redis", SCRAPY_REDIS)
    script = tmp_path / "theirs.py"
    theirs_there = {"url": cluster.server_url, "name": cluster.job}
    script.write_text(spider.format(seed=shop.url) + THEIRS.format(**theirs_there))
    theirs = subprocess.Popen([python, script], env={**os.environ}, stderr=subprocess.DEVNULL)
    until(lambda: len(shop.log()) > 30)
    theirs.terminate()  # it hands in what is under way
    theirs.wait()
    items = cluster.command("LRANGE", f"{cluster.job}:theirs", 0, -1)
    done = {json.loads(one)["url"] for one in items}
    queued = cluster.command("ZCARD", f"{cluster.job}:requests")
    assert queued > 0
    before = len(shop.log())

    adopted = cluster.json("adopt", "scrapy-redis", "--spider", cluster.job, "--trust-pickle")
    assert (adopted["entries"], adopted["queued"], adopted["dead"]) == (queued, queued, 0)
    file = cluster.folder / "ours.py"
    file.write_text(spider.format(seed=shop.url))
    node = cluster.start("runspider", str(file), SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    cluster.assert_accounted_for()
    ours = {one["url"] for one in cluster.items()}
    assert len(ours | done) >= len(expected_items(shop.expected))
    again = {entry.target for entry in shop.log()[before:]} & {
        url.removeprefix(shop.url.rstrip("/")) for url in done
    }
    assert again == set()


#: The lowest of the declared range, with a Twisted of its time; the newest is what tests run with.
LOWEST = ("scrapy==2.13.4", "twisted==24.11.0")


def test_nodes_with_the_lowest_and_the_newest_scrapy_work_on_one_job(
    open_shop, make_cluster, monkeypatch
):
    python = environment("scrapy-lowest", LOWEST)
    [library] = python.parents[1].glob("lib/python*/site-packages")
    cluster = make_cluster(open_shop(books=200, latency_s=0.1))
    monkeypatch.setenv("PYTHONPATH", str(library))
    nodes = [cluster.start_whole()]
    monkeypatch.delenv("PYTHONPATH")
    nodes.append(cluster.start_whole())

    assert [node.wait() for node in nodes] == [0, 0], nodes[0].log
    assert "Scrapy 2.13.4 started" in nodes[0].log
    cluster.assert_complete()
    assert all(node.stat("scheduler/dequeued") > 5 for node in nodes)
    cluster.assert_counted()


def test_a_killed_node_of_the_lowest_scrapy_stores_each_item_with_its_own_page_and_once(
    open_shop, make_cluster, monkeypatch, until
):
    python = environment("scrapy-lowest", LOWEST)
    [library] = python.parents[1].glob("lib/python*/site-packages")
    monkeypatch.setenv("PYTHONPATH", str(library))
    cluster = make_cluster(open_shop(books=100, latency_s=0.2))
    words = "runspider", cluster.write_odd("owners")
    victim = cluster.start_whole(*words, SKITTER_LEASE_S=2)
    until(lambda: len(cluster.items()) > 5)

    cluster.kill_at_work(victim)
    heir = cluster.start_whole(*words, SKITTER_LEASE_S=2)

    assert heir.wait() == 0, heir.log
    assert "Scrapy 2.13.4 started" in heir.log
    cluster.assert_owned()
    of_books = Counter(item["page"] for item in cluster.items() if "/books/" in item["page"])
    assert set(of_books.values()) == {2}


PLAIN = """
from scrapy import Spider


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
RULED = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class Theirs(CrawlSpider):
    name = "theirs"
    allowed_domains = ["localhost"]
    start_urls = [{seed!r}]
    rules = (
        Rule(LinkExtractor(restrict_css="article.book h3"), callback="book"),
        Rule(LinkExtractor(restrict_css="nav"), follow=True),
    )

    def book(self, response):
        yield {{"url": response.url}}
"""
THEIRS = """
from scrapy.crawler import CrawlerProcess

process = CrawlerProcess(
    {{
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_QUEUE_KEY": "{name}:requests",
        "SCHEDULER_DUPEFILTER_KEY": "{name}:dupefilter",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "ITEM_PIPELINES": {{"scrapy_redis.pipelines.RedisPipeline": 300}},
        "REDIS_ITEMS_KEY": "{name}:theirs",
        "SCHEDULER_PERSIST": True,
        "REDIS_URL": {url!r},
        "CONCURRENT_REQUESTS": 2,
        "LOG_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
    }}
)
process.crawl(Theirs)
process.start()
"""
