"""Names of scrapy-redis that people's own code uses, with and without our scheduler."""

from __future__ import annotations

import pytest
import redis
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.request import RequestFingerprinter

from skitter.errors import UsageError
from skitter.scrapy import RedisSpider, RFPDupeFilter, defaults, queue
from skitter.scrapy.connection import get_redis, get_redis_from_settings
from skitter.scrapy.utils import TextColor

pytestmark = pytest.mark.timeout(300)
SCRAPYS = "scrapy.core.scheduler.Scheduler"


class Other(redis.Redis):
    """A client of somebody's own class."""


class Fed(RedisSpider):
    name = "fed"


def fed(server_url: str, key: str, **settings: object) -> Fed:
    given = {"REDIS_URL": server_url, "REDIS_START_URLS_KEY": key, **settings}
    crawler = Crawler(Fed, Settings(given))
    return Fed.from_crawler(crawler)


def test_a_spider_is_fed_without_our_scheduler_too(open_shop, make_cluster):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    pages = [f"{shop.url}?{number}" for number in range(40)]
    cluster.push("not a URL", *pages)

    node = cluster.run_odd(
        "fed",
        SCHEDULER=SCRAPYS,
        ITEM_PIPELINES="{}",
        MAX_IDLE_TIME_BEFORE_CLOSE=1,
        CONCURRENT_REQUESTS=16,
    )

    assert node.finish() == "finished"
    assert node.stat("item_scraped_count") == len(pages)
    assert sorted(shop.pages()) == sorted(f"/?{number}" for number in range(40))
    assert "lost if the process dies" in node.log
    assert "was dropped: b'not a URL'" in node.log
    assert cluster.command("EXISTS", f"{cluster.job}:start_urls") == 0


def test_without_our_scheduler_the_dupefilter_filters_for_its_process():
    dupefilter = RFPDupeFilter(RequestFingerprinter())

    seen = [
        dupefilter.request_seen(Request(f"https://a.test/{page}")) for page in ("a", "b", "a", "b")
    ]

    assert seen == [False, False, True, True]


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_peoples_own_code_takes_a_batch_of_messages_in_order(server_url, job, kind):
    spider = fed(server_url, f"{job}:feed", CONCURRENT_REQUESTS=3)
    urls = [f"https://a.test/{number}" for number in range(5)]
    server, key = spider.server, f"{job}:feed"
    if kind == "list":
        server.rpush(key, *urls)
    elif kind == "set":
        server.sadd(key, *urls)
    else:
        server.zadd(key, {url: -place for place, url in enumerate(urls)})
    assert spider.count_size(key) == 5

    taken = [request.url for request in spider.next_requests()]
    assert len(taken) == 3
    assert spider.count_size(key) == 2
    taken += [request.url for request in spider.next_requests()]

    assert (taken if kind != "set" else sorted(taken)) == urls
    assert list(spider.next_requests()) == []


def test_a_script_may_have_a_client_of_its_own_class(server_url):
    params = {"redis_cls": f"{__name__}.Other", "socket_timeout": 7}

    client = get_redis_from_settings(Settings({"REDIS_URL": server_url, "REDIS_PARAMS": params}))

    assert type(client).__name__ == "Other"
    assert client.ping()
    options = client.get_connection_kwargs()
    assert (options["socket_timeout"], options["socket_connect_timeout"]) == (7, 30)
    assert isinstance(get_redis(), defaults.REDIS_CLS)
    assert TextColor.ENDC == "\033[0m"


@pytest.mark.parametrize("name", ["Base", "PriorityQueue", "FifoQueue", "LifoQueue"])
def test_a_queue_that_nobody_would_read_is_not_created(name):
    with pytest.raises(UsageError, match=rf"{name} is only a name.*skitter push"):
        getattr(queue, name)("server", "spider", "books:requests")


def test_scale_says_that_nodes_are_started_elsewhere(open_shop, make_cluster):
    cluster = make_cluster(open_shop(books=50))
    assert cluster.start().finish() == "finished"

    said = cluster.skitter("scale", cluster.job, "3").stdout

    assert "Scrapy's nodes do not follow: start and stop `scrapy crawl` yourself." in said


def test_a_fed_spider_waits_while_its_feed_is_empty(open_shop, make_cluster, until):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    node = cluster.run_odd("fed", MAX_IDLE_TIME_BEFORE_CLOSE=2)
    until(lambda: "scrapy node started" in node.log)
    cluster.push(f"{shop.url}?1")

    assert node.finish() == "finished"
    assert node.stat("item_scraped_count") == 1
    assert "Traceback" not in node.log


def test_a_node_that_would_run_the_requests_of_another_spider_warns(open_shop, make_cluster, until):
    cluster = make_cluster(open_shop(books=50))
    cluster.create_paused()
    books = cluster.start()
    until(lambda: cluster.stats().pending)

    fed = cluster.run_odd("fed", MAX_IDLE_TIME_BEFORE_CLOSE=2)

    warning = (
        f"WARNING: the requests of {cluster.job} are of the spider 'books', and this node calls"
    )
    until(lambda: warning in fed.log)
    said = cluster.skitter("status", cluster.job).stdout
    assert "newer release" not in said, "of Skitter: what nodes note is no option"
    for node in (books, fed):
        node.interrupt()
        assert node.finish() == "shutdown"
    assert warning not in books.log


def test_a_spider_fetches_only_what_another_one_has_not(open_shop, make_cluster, tmp_path):
    """One filter for two spiders, and one that is in a file while its job is not on the server."""
    shop, file = open_shop(books=50), tmp_path / "seen.txt"
    cluster = make_cluster(shop)
    assert cluster.start(SCHEDULER_PERSIST=True).finish() == "finished"
    fetched = shop.pages()
    said = cluster.skitter("seen", cluster.job, "--to", str(file))
    # The start URL is there twice: as what `start` yields, which is not filtered, and as a link.
    assert said.stdout == f"{file}: {len(set(fetched)) + 1} seen\n", said.stderr
    cluster.skitter("purge", cluster.job, "--yes")
    cluster.skitter("seen", cluster.job, "--from", str(file))

    assert cluster.start().finish() == "finished"

    assert shop.pages()[len(fetched) :] == ["/"]  # the start URL, which is not filtered
