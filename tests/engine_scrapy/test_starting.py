"""How nodes begin: twice in one process, and while the server is away."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred

from engine_scrapy.conftest import CAN_FORK
from skitter.embedded import start, stop
from skitter.errors import JobMissing, ServerFull, ServerUnreachable, UsageError
from skitter.scrapy.inside.refused import end_opening
from skitter.scrapy.node.housekeeping import Absence

pytestmark = pytest.mark.timeout(300)

TWICE = """
import sys
from scrapy import Spider
try:
    from scrapy.crawler import AsyncCrawlerProcess as CrawlerProcess
except ImportError:  # Scrapy 2.13
    from scrapy.crawler import CrawlerProcess


class One(Spider):
    name = "twice"
    start_urls = [sys.argv[1]]
    allowed_domains = ["localhost"]

    def parse(self, response):
        yield from response.follow_all(css="nav a:not([href^=mailto])")

    def closed(self, reason):
        print(type(self).__name__, reason, flush=True)


class Other(One):
    custom_settings = {"SCHEDULER_IDLE_BEFORE_CLOSE": 2}


process = CrawlerProcess(
    {
        "SCHEDULER": "skitter.scrapy.Scheduler",
        "DUPEFILTER_CLASS": "skitter.scrapy.RFPDupeFilter",
        "REDIS_URL": sys.argv[2],
        "SKITTER_JOB": sys.argv[3],
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "ERROR",
    }
)
process.crawl(One)
process.crawl(Other)
process.start()
"""


def test_the_same_spider_twice_in_one_process_shares_the_job_to_the_end(
    open_shop, server_url, make_cluster
):
    """One closes first; the other still watches the queue, which must not be removed under it."""
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    script = [sys.executable, "-c", TWICE, shop.url, server_url, cluster.job]

    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=600)

    assert done.stdout.splitlines() == ["One finished", "Other finished"]
    assert done.stderr == ""
    with pytest.raises(JobMissing):
        cluster.stats()


def test_a_node_that_starts_while_the_server_is_away_waits_for_it(
    open_shop, make_cluster, until, short_dir
):
    directory = short_dir / "late"
    url = start(directory).url
    stop(directory)
    try:
        shop = open_shop(books=50)
        cluster = make_cluster(shop, url=url)
        node, other = (cluster.start(SKITTER_START_S=600) for _ in range(2))
        until(lambda: all("Waiting up to 600 s for it" in one.log for one in (node, other)))
        other.process.send_signal(signal.SIGINT)
        assert other.wait() == 0, "it may be stopped meanwhile"

        start(directory)

        assert node.finish() == "finished"
        assert "the server is back" in node.log
        cluster.assert_complete()
    finally:
        stop(directory)


def test_a_node_whose_server_does_not_answer_gives_up_with_a_sentence(open_shop, make_cluster):
    cluster = make_cluster(open_shop(books=50))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    node = cluster.start(REDIS_URL=f"redis://127.0.0.1:{port}", SKITTER_START_S=0.5)

    assert node.refusal()
    assert "connection refused): check that it runs" in node.log
    assert "Waiting up to 0.5 s for it" in node.log
    assert "has waited 0.5 s for it and stops: correct REDIS_URL" in node.log


def test_that_a_server_is_away_is_said_at_once_and_ever_more_rarely():
    absence = Absence(start_s=60)

    said = [now for now in range(0, 1200) if absence.is_news(now)]

    assert said == [0, 5, 15, 35, 75, 155, 315, 615, 915]
    assert absence.end()
    assert not absence.end()
    assert absence.is_news(1200)


def test_a_node_that_starts_waits_for_a_server_that_is_away_but_not_for_ever():
    absence, away = Absence(start_s=60), ServerUnreachable("it does not answer: start it.")

    for now in (5, 64.9):
        absence.check(away, now)
    with pytest.raises(ServerUnreachable, match=r"start it\. The node has waited 60 s"):
        absence.check(away, 65)
    absence.check(ServerFull("it"), 1000)  # which is there, and has work to do


MISTAKES = [
    ({"SKITTER_LEASE_S": "abc"}, "SKITTER_LEASE_S must be a number"),
    ({"SKITTER_LEASES": "1"}, "there is no setting SKITTER_LEASES"),
    ({"DUPEFILTER_CLASS": "scrapy.Spider"}, "DUPEFILTER_CLASS = 'scrapy.Spider' cannot be"),
    ({"REDIS_ITEMS_SERIALIZER": "nope.nope"}, "REDIS_ITEMS_SERIALIZER = 'nope.nope' cannot be"),
    ({"REDIS_ITEMS_KEY": "%(name)s"}, r"REDIS_ITEMS_KEY = '%(name)s' cannot be filled in"),
    ({"REDIS_URL": "redis://:wrong@localhost:1:2"}, "REDIS_URL must be"),
    (
        {"STATS_CLASS": "skitter.scrapy.RedisStatsCollector", "STATS_KEY": "%(name)s"},
        "STATS_KEY = '%(name)s' cannot be filled in",
    ),
]


@pytest.mark.parametrize(("settings", "sentence"), MISTAKES, ids=[one[1][:20] for one in MISTAKES])
def test_a_mistake_in_the_settings_is_one_line_and_an_exit_code(
    open_shop, make_cluster, settings, sentence
):
    cluster = make_cluster(open_shop(books=50))

    node = cluster.start(**settings)

    [line] = node.refusal()
    assert sentence in line
    assert cluster.shop.pages() == []


def test_a_mistake_in_a_fed_spider_is_one_line_and_an_exit_code(open_shop, make_cluster):
    cluster = make_cluster(open_shop(books=50))

    node = cluster.start("crawl", "fed", REDIS_ENCODING="utf-99")

    [line] = node.refusal()
    assert "REDIS_ENCODING = 'utf-99' is not an encoding" in line
    with pytest.raises(JobMissing):
        cluster.stats()


def test_a_mistake_in_the_class_of_a_fed_spider_is_one_line_and_an_exit_code(
    open_shop, make_cluster
):
    cluster = make_cluster(open_shop(books=50))
    file = cluster.folder / "mistaken.py"
    file.write_text(MISTAKEN)

    node = cluster.start("runspider", str(file))

    [line] = node.refusal()
    assert "Mistaken.rules[0] is a LinkExtractor: write Rule(LinkExtractor(...))" in line


MISTAKEN = """
from scrapy.linkextractors import LinkExtractor

from skitter.scrapy import RedisCrawlSpider


class Mistaken(RedisCrawlSpider):
    name = "mistaken"
    rules = (LinkExtractor(),)
"""


def test_a_scrapy_that_cannot_close_quietly_gets_the_error_itself(monkeypatch):
    monkeypatch.setattr("skitter.scrapy.inside.refused.CLOSES_QUIETLY", False)
    opened: Deferred[Any] = Deferred()
    errors: list[Any] = []

    end_opening(Crawler(Spider), opened, UsageError("no"))

    opened.addErrback(errors.append)
    assert [one.getErrorMessage() for one in errors] == ["no"]


def test_a_slot_has_the_delay_that_is_configured_and_does_not_wait_a_second_time(
    open_shop, make_cluster
):
    cluster = make_cluster(open_shop(books=50))

    evenly = {"DOWNLOAD_DELAY_JITTER": 0} if CAN_FORK else {"RANDOMIZE_DOWNLOAD_DELAY": False}
    node = cluster.run_odd("paced", DOWNLOAD_DELAY=0.3, **evenly)

    assert node.finish() == "finished"
    assert cluster.items() == [{"upc": "slot", "delay": 0.3, "waits": 0, "raised": 9}]
