"""The way back: scrapy-redis, as it is on the package index, goes on where our nodes stopped."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections import Counter
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
import redis as redis_py
from scrapy import Request, Spider
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.request import request_from_dict
from scrapy.utils.test import get_crawler
from scrapy_redis.queue import FifoQueue, PriorityQueue  # type: ignore[import-untyped]

from bookshop import fetched_twice
from skitter.errors import UsageError
from skitter.frontier.audit.auditor import audit
from skitter.frontier.control import set_state
from skitter.frontier.identities import SCRAPY, scrapy_identity
from skitter.frontier.jobs import note_fingerprinter, open_job
from skitter.frontier.records.health import find_warnings
from skitter.frontier.requests import offer
from skitter.frontier.workers import Heartbeat, beat
from skitter.model import Completion, Failure, State
from skitter.scrapy.requests.adopt import Adoption, adopt
from skitter.scrapy.requests.codec import Codec
from skitter.scrapy.requests.release import Release, release


class Books(Spider):
    name = "books"

    def parse_book(self, response):
        """A callback."""

    def failed(self, failure):
        """An errback."""


SPIDER = Books()
CODEC = Codec(SPIDER, lambda _: "shop.test", ranked=True)


def wanted(job: str, **about: Any) -> Release:
    return Release(
        job=job, requests_key=f"{job}:requests", dupefilter_key=f"{job}:dupefilter", **about
    )


def made(path: str, *, unique: str = "", **about: Any) -> Any:
    """As a node would offer it."""
    url = f"https://shop.test/{path}"
    request = Request(url, SPIDER.parse_book, errback=SPIDER.failed, **about)
    return CODEC.pack(request, scrapy_identity(url, "GET", b""), unique=unique)


@pytest.fixture
async def crawl(frontier):
    """Half done: a and b are done, c is dead, d waits for a later time, e to h for their turn."""
    await note_fingerprinter(frontier, SCRAPY)
    about: Any = {
        "meta": {"at": datetime(2026, 1, 1, tzinfo=UTC)},
        "headers": {"X": ["1", "2"]},
    }
    waiting = [
        made("e", priority=5, cb_kwargs={"n": {1, 2}}, **about),
        made("f", dont_filter=True, unique="1"),
        made("f", dont_filter=True, unique="2"),
        made("g", priority=-5),
        made("h", priority=-7),
    ]
    frontier_requests = [made(path, priority=100) for path in "abcd"] + waiting
    await frontier.add_offers([offer(one, frontier.layout) for one in frontier_requests])
    a, b, c, d = (await frontier.lease(4)).leases
    await frontier.complete([Completion(lease=a), Completion(lease=b)])
    await frontier.bury([Failure(lease=c, error="404")])
    await frontier.release([d], after_s=3600)
    return frontier


@pytest.fixture
def theirs(server_url):
    client = redis_py.Redis.from_url(server_url)
    yield client
    client.close()


def paths(requests: list[Request]) -> list[str]:
    return [request.url.rpartition("/")[2] for request in requests]


def drained(queue: Any) -> list[Request]:
    found = []
    while len(queue):
        found.append(queue.pop())
    return found


async def test_the_queue_is_read_by_that_of_scrapy_redis(server, crawl, job, theirs):
    result = await release(server, wanted(job))

    assert (result.queued, result.early, result.dead, result.kept) == (6, 1, 1, 0)
    requests = drained(PriorityQueue(theirs, SPIDER, f"{job}:requests"))
    assert Counter(paths(requests)) == Counter("deffgh"), "equal requests are two"
    assert [one.priority for one in requests] == [100, 5, 0, 0, -5, -7]
    [book] = [one for one in requests if one.url.endswith("e")]
    assert book.callback == SPIDER.parse_book
    assert book.errback == SPIDER.failed
    assert book.meta == {"at": datetime(2026, 1, 1, tzinfo=UTC)}
    assert book.cb_kwargs == {"n": {1, 2}}
    assert book.headers.getlist("X") == [b"1", b"2"]
    assert (await crawl.stats()).state is State.PAUSED
    assert (await audit(crawl)).problems == set()
    assert await find_warnings(crawl, await crawl.stats()) == []


async def test_done_again_it_changes_nothing_until_the_job_has_been_resumed(server, crawl, job):
    await release(server, wanted(job))
    await server.command("DEL", f"{job}:requests")  # scrapy-redis has crawled on

    again = await release(server, wanted(job))

    assert again.was_released
    assert not await server.command("EXISTS", f"{job}:requests")
    await set_state(crawl, State.RUNNING)
    with pytest.raises(UsageError, match=r"scrapy-redis has .*:dupefilter already"):
        await release(server, wanted(job))


async def test_a_fifo_queue_keeps_the_order(server, crawl, job, theirs):
    await release(server, wanted(job, is_list=True))

    requests = drained(FifoQueue(theirs, SPIDER, f"{job}:requests"))
    assert [one for one in paths(requests) if one != "d"] == ["e", "f", "f", "g", "h"]
    assert len(requests) == 6


async def test_while_a_node_runs_nothing_is_released(server, crawl, job):
    now = await (await open_job(server, job)).server_time()  # not a clock of tests
    living = Heartbeat(name="n", host="elsewhere", pid=1, kind="scrapy", started_at=now, at=now)
    await beat(crawl, living)

    with pytest.raises(UsageError, match=r"1 node of .* still at work, on elsewhere"):
        await release(server, wanted(job))

    assert (await crawl.stats()).state is State.RUNNING
    assert not await server.command("EXISTS", f"{job}:requests", f"{job}:dupefilter")


async def test_what_only_the_project_can_read_is_counted_and_stays_in_the_job(server, crawl, job):
    later = made("later", meta={"then": Request("https://shop.test/x", SPIDER.parse_book)})
    await crawl.add_offers([offer(later, crawl.layout)])

    result = await release(server, wanted(job))

    assert (result.queued, result.kept) == (6, 1)
    assert result.reasons == {"there is another request in its meta, so only a node can read it": 1}
    assert result.fingerprints == (await crawl.stats()).seen - 1, "it may be found again"


async def test_one_that_was_interrupted_is_run_again(server, crawl, job, theirs, monkeypatch):
    """It died when all was written and nothing renamed."""
    import skitter.scrapy.requests.release as module

    async def die(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_hand_over", die)
        with pytest.raises(KeyboardInterrupt):
            await release(server, wanted(job))
    assert not await server.command("EXISTS", f"{job}:requests")

    await release(server, wanted(job))

    assert len(drained(PriorityQueue(theirs, SPIDER, f"{job}:requests"))) == 6


async def test_there_and_back_again(server, crawl, job, theirs):
    await release(server, wanted(job))
    back = Adoption(
        spider="books",
        job=job,
        requests_key=f"{job}:requests",
        dupefilter_key=f"{job}:dupefilter",
        trust_pickle=True,
    )
    with pytest.raises(UsageError, match="was released to scrapy-redis"):
        await adopt(server, back)
    [fetched] = theirs.zrange(f"{job}:requests", 0, 0)  # by scrapy-redis, meanwhile
    theirs.zrem(f"{job}:requests", fetched)

    result = await adopt(server, dataclasses.replace(back, job=f"{job}-2"))

    assert (result.queued, result.dead) == (5, 0)
    frontier = await open_job(server, f"{job}-2")
    assert frontier.layout.fingerprinter == SCRAPY
    request = request_from_dict(pickle.loads(fetched), spider=SPIDER)
    known = CODEC.pack(request, scrapy_identity(request.url, "GET", b""), unique="")
    assert await frontier.add_offers([offer(known, frontier.layout)]) == ["seen"]
    assert (await audit(frontier)).problems == set()


THEIRS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "skitter.scrapy.way_back.RFPDupeFilter",
    "ITEM_PIPELINES": '{"scrapy_redis.pipelines.RedisPipeline": 300}',
}


@pytest.mark.timeout(300)
def test_scrapy_redis_goes_on_and_nothing_is_lost_or_fetched_twice(open_shop, make_cluster):
    shop = open_shop(books=60, latency_s=0.05)
    cluster = make_cluster(shop)
    keys = [f"--requests-key={cluster.job}:requests", f"--dupefilter-key={cluster.job}:dupefilter"]
    words = ("release", "scrapy-redis", "--spider", "books", "--job", cluster.job, *keys)
    node = cluster.start(CLOSESPIDER_ITEMCOUNT=15, CONCURRENT_REQUESTS=4)
    assert node.finish() == "closespider_itemcount"
    before = cluster.stats()
    assert before.pending > 10

    done = cluster.skitter(*words)

    assert done.returncode == 0, done.stderr
    assert f"{before.pending + before.delayed:,} in {cluster.job}:requests" in done.stdout
    theirs = cluster.start(
        SCHEDULER_QUEUE_KEY=f"{cluster.job}:requests",
        SCHEDULER_DUPEFILTER_KEY=f"{cluster.job}:dupefilter",
        **THEIRS,
    )
    assert theirs.wait() == 0, theirs.log
    assert "Traceback" not in theirs.log
    expected = {book.upc for book in shop.expected.catalogue.books}
    assert Counter(item["upc"] for item in cluster.items()) == Counter(expected)
    seeds = {"/", "/sitemap.xml"}  # Scrapy sends the requests of `start` at each start
    assert [one for one in fetched_twice(shop.log()) if one not in seeds] == []


def test_the_way_back_is_read_without_scrapy_redis_and_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scrapy_redis.dupefilter", None)
    monkeypatch.delitem(sys.modules, "skitter.scrapy.way_back", raising=False)
    filters = import_module("skitter.scrapy.way_back").RFPDupeFilter
    monkeypatch.delitem(sys.modules, "skitter.scrapy.way_back")
    with pytest.raises(UsageError, match="needs scrapy-redis: pip install scrapy-redis"):
        build_from_crawler(filters, get_crawler())
