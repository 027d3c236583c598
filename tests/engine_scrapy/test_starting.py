"""How nodes begin: twice in one process, and while the server is away."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from skitter.errors import JobMissing
from skitter.valkey import start, stop

pytestmark = pytest.mark.timeout(300)

TWICE = """
import sys
from scrapy.crawler import AsyncCrawlerProcess
from scrapy import Spider


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


process = AsyncCrawlerProcess(
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
        node, other = cluster.start(), cluster.start()
        until(lambda: all("Nothing is lost; trying again" in one.log for one in (node, other)))
        other.process.send_signal(signal.SIGINT)
        assert other.wait() == 0, "it may be stopped meanwhile"

        start(directory)

        assert node.finish() == "finished"
        assert "the server is back" in node.log
        cluster.assert_complete()
    finally:
        stop(directory)


def test_a_server_that_refuses_us_is_not_waited_for(open_shop, make_cluster):
    cluster = make_cluster(open_shop(books=50))

    node = cluster.start(REDIS_URL="redis://:wrong@localhost:1:2")

    assert node.wait() is not None
    assert "REDIS_URL" in node.log


def test_a_slot_has_the_delay_that_is_configured_and_does_not_wait_a_second_time(
    open_shop, make_cluster
):
    cluster = make_cluster(open_shop(books=50))

    node = cluster.run_odd("paced", DOWNLOAD_DELAY=0.3, DOWNLOAD_DELAY_JITTER=0)

    assert node.finish() == "finished"
    assert cluster.items() == [{"upc": "slot", "delay": 0.3, "waits": 0, "raised": 9}]
