"""People's own code on the example project: pipelines, scripts, overrides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.linkextractors import LinkExtractor
from scrapy.settings import Settings
from scrapy.spiders import Rule

from bookshop import expected_items
from engine_scrapy.conftest import CAN_FORK
from skitter.embedded import hold
from skitter.errors import UsageError
from skitter.scrapy import (
    RedisCrawlSpider,
    RedisSpider,
    RFPDupeFilter,
    Scheduler,
    get_redis,
    get_redis_from_settings,
)
from skitter.scrapy.connection import from_settings
from skitter.scrapy.dupefilter import make_dupefilter
from skitter.scrapy.inside.refused import CLOSES_QUIETLY, is_refused

PROJECT = Path(__file__).parents[2] / "examples" / "scrapy"
OWN = '''
import logging

from skitter.scrapy import RedisPipeline, RFPDupeFilter


class Counting:
    """Uses the client of the spider."""

    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        self.crawler = crawler
        return self

    def process_item(self, item):
        spider = self.crawler.spider
        spider.server.hincrby(self.crawler.settings["SKITTER_JOB"] + ":counts", item.currency)
        return item


class Twice(RedisPipeline):
    """Stores a copy its own way."""

    def _process_item(self, item, spider):
        assert spider.name == "ruled"
        self.server.rpush(self.item_key(item, spider) + ":copy", self.serialize(item))
        return super()._process_item(item, spider)


class Mine(RFPDupeFilter):
    """Used: a rule of its own of what is the same page."""

    def request_fingerprint(self, request):
        return "mine" + super().request_fingerprint(request)

    def open(self):
        logging.info("my dupefilter opens")

    def close(self, reason):
        logging.info("my dupefilter closes: " + reason)


class Remembering(RFPDupeFilter):
    """Refused: nobody would ask it."""

    def request_seen(self, request):
        return False
'''
SCRIPT = """
import sys
from scrapy.utils.project import get_project_settings
from skitter.scrapy.connection import get_redis, get_redis_from_settings

job, url = sys.argv[1:]
server = get_redis_from_settings(get_project_settings())
assert server.llen(job + ":items") == get_redis(url=url).llen(job + ":items")
print(sum(int(one) for one in server.hgetall(job + ":counts").values()))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    with_spider = OWN.replace("process_item(self, item)", "process_item(self, item, spider)")
    code = OWN if CAN_FORK else with_spider  # which Scrapy 2.13 passes
    (tmp_path / "own_code.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.timeout(300)
def test_two_nodes_of_the_example_project_with_peoples_own_code_on_it(
    own, open_shop, make_cluster, monkeypatch
):
    shop = open_shop(books=60)
    cluster = make_cluster(shop)
    cluster.push(shop.url)
    settings = {
        "ITEM_PIPELINES": json.dumps({"own_code.Counting": 200, "own_code.Twice": 300}),
        "DUPEFILTER_CLASS": "own_code.Mine",
        "MAX_IDLE_TIME_BEFORE_CLOSE": 3,
    }
    nodes = [
        cluster.start("crawl", "ruled", **settings),
        cluster.start("crawl", "ruled", **settings, TWISTED_REACTOR_ENABLED=False),
    ]

    assert [node.finish() for node in nodes] == ["finished", "finished"]
    cluster.assert_complete()
    assert all("Reading start URLs from redis key" in node.log for node in nodes)
    assert all("my dupefilter closes: finished" in node.log for node in nodes)
    copies = cluster.command("LRANGE", f"{cluster.job}:items:copy", 0, -1)
    books = len(expected_items(shop.expected))
    assert len({json.loads(one)["upc"] for one in copies}) == books
    monkeypatch.setenv("SKITTER_REDIS_URL", cluster.server_url)
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "bookshop.settings")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    script = [sys.executable, "-c", SCRIPT, cluster.job, cluster.server_url]
    counted = subprocess.run(script, capture_output=True, text=True, check=True, timeout=600)
    assert int(counted.stdout) == books


@pytest.mark.timeout(300)
def test_a_dupefilter_that_nobody_would_ask_is_refused_by_name(own, open_shop, make_cluster):
    cluster = make_cluster(open_shop(books=50))

    node = cluster.start(DUPEFILTER_CLASS="own_code.Remembering")

    node.wait()
    assert "Remembering.request_seen cannot be honoured" in node.log
    assert "override request_fingerprint" in node.log


@pytest.mark.timeout(300)
def test_a_node_that_goes_on_says_how_much_is_scheduled(open_shop, make_cluster, until):
    shop = open_shop(latency_s=0.05)
    cluster = make_cluster(shop)
    first = cluster.start(CONCURRENT_REQUESTS=2)
    until(lambda: len(cluster.items()) > 2)
    first.interrupt()
    first.finish()
    assert "Resuming crawl" not in first.log
    queued = cluster.stats().pending

    second = cluster.start(CLOSESPIDER_PAGECOUNT=1)

    second.finish()
    assert f"Resuming crawl ({queued} requests scheduled)" in second.log


@pytest.mark.timeout(300)
def test_start_urls_of_a_fed_spider_are_asked_for_too(open_shop, make_cluster):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    cluster.push(f"{shop.url}?fed")

    node = cluster.run_odd("begun", MAX_IDLE_TIME_BEFORE_CLOSE=2)

    assert node.finish() == "finished"
    assert [one["upc"][-4:] for one in cluster.items()] == ["?fed", "?own"]


class Fed(RedisSpider):
    name = "fed"


def spider_of(kind: type[Spider], **settings: object) -> Spider:
    return kind.from_crawler(Crawler(kind, settings))


def test_clients_of_people_reach_the_server_of_the_crawl(server_url, job):
    settings = Settings({"REDIS_URL": server_url, "REDIS_PARAMS": {"retry_on_timeout": True}})
    spider = spider_of(Fed, REDIS_URL=server_url)
    assert isinstance(spider, Fed)

    spider.server.set(job, "there")

    assert get_redis(url=server_url).get(job) == b"there"
    assert get_redis_from_settings(settings).get(job) == from_settings(settings).get(job)
    text = Settings({"REDIS_URL": server_url, "REDIS_DECODE_RESPONSES": True})
    assert get_redis_from_settings(text).get(job) == "there"
    spider.setup_redis()
    assert spider.server is spider.server, "one client, however often it is asked for"


def test_the_embedded_server_is_reached_by_its_directory(short_dir):
    settings = Settings({"SKITTER_DIR": str(short_dir / "own")})
    with pytest.raises(UsageError, match=r"no server is running in .*: start one with `skitter up"):
        get_redis_from_settings(settings)

    with hold(short_dir / "own"):
        assert get_redis_from_settings(settings).ping()


@pytest.mark.parametrize(
    "name", ["next_requests", "fetch_data", "pop_list_queue", "pop_priority_queue", "count_size"]
)
def test_what_nobody_would_call_of_a_spider_is_refused_by_name(name):
    kind = type("Mine", (Fed,), {name: lambda self, *args: []})

    with pytest.raises(UsageError, match=f"Mine.{name} cannot be honoured"):
        kind().setup_redis(Crawler(kind))


@pytest.mark.parametrize("name", ["request_seen", "clear", "from_settings", "from_spider"])
def test_what_nobody_would_call_of_a_dupefilter_is_refused_by_name(name):
    kind = type("Mine", (RFPDupeFilter,), {name: lambda self, *args: None})

    with pytest.raises(UsageError, match=f"Mine.{name} cannot be honoured"):
        make_dupefilter(Crawler(Fed, {"DUPEFILTER_CLASS": kind}))


def test_what_nobody_would_call_of_a_scheduler_is_refused_by_name(caplog):
    kind = type("Mine", (Scheduler,), {"flush": lambda self: None})
    spider = Fed()

    sentence = "Mine.flush cannot be honoured"
    if not CLOSES_QUIETLY:
        with pytest.raises(UsageError, match=sentence):
            kind(Crawler(Fed)).open(spider)
        return
    kind(Crawler(Fed)).open(spider)

    assert is_refused(spider)
    assert sentence in caplog.text


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ((LinkExtractor(),), r"rules\[0\] is a LinkExtractor: write Rule\(LinkExtractor\(...\)\)"),
        ((Rule(LinkExtractor()), LinkExtractor()), r"rules\[1\] is a LinkExtractor"),
        (LinkExtractor(), r"rules\[0\] is a LinkExtractor"),
        (
            (Rule(LinkExtractor(), callback="parse_bok"),),
            "rules.*callback='parse_bok', but Mine has no such",
        ),
        (Rule(LinkExtractor()), r"rules is a single Rule: write \(Rule\(...\),\)"),
    ],
)
def test_a_bare_link_extractor_is_answered_with_what_to_write(rules, sentence):
    kind = type("Mine", (RedisCrawlSpider,), {"name": "mine", "rules": rules})

    with pytest.raises(UsageError, match=f"Mine.{sentence}"):
        kind()
