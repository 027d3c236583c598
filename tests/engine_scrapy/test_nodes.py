"""Nodes of one crawl: each page once, whatever happens to one of them."""

from __future__ import annotations

import re
import signal
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from bookshop import expected_items, fetched_twice, trespasses
from engine_scrapy.conftest import Shop
from shops import silenced
from skitter.archive.index import Archive
from skitter.engine.leases import reclaim
from skitter.errors import JobMissing
from skitter.frontier.control import change_options
from skitter.frontier.records.metrics import read_history
from skitter.frontier.workers import heartbeats, live_workers
from skitter.model import State

pytestmark = pytest.mark.timeout(300)


def assert_kept(folder: Path, shop: Shop) -> None:
    """Each page that a callback saw, once, and as it saw it."""
    archive = Archive.open(folder)
    assert len(list(archive.responses())) == len(archive)
    kept = {path_of(one.url): archive.read(one) for one in archive}
    assert kept.keys() == {path_of(one.page) for one in shop.log() if one.status == 200}
    books = [page.body for path, page in kept.items() if path.startswith("/books/")]
    assert len(books) > 50
    assert all(b"<h1" in body for body in books), "they are unpacked"


def path_of(url: str) -> str:
    return unquote(urlsplit(url).path)


def test_two_nodes_bring_every_book_once_and_ask_for_no_page_twice(open_shop, make_cluster, until):
    shop = open_shop(latency_s=0.1)
    cluster = make_cluster(shop)
    cluster.create_paused()

    folder = cluster.folder / "kept"
    one = cluster.start(SKITTER_ARCHIVE=folder)
    two = cluster.start(SKITTER_ARCHIVE=folder, TWISTED_REACTOR_ENABLED=False)
    until(lambda: len(cluster.ask(live_workers)) == 2)
    cluster.set_state(State.RUNNING)

    assert (one.finish(), two.finish()) == ("finished", "finished")
    cluster.assert_complete()
    assert fetched_twice(shop.log()) == []
    assert trespasses(shop.log()) == []
    done = [node.stat("scheduler/dequeued/redis") for node in (one, two)]
    assert min(done) > 10, f"one of them had nothing to do: {done}"
    missing = {url for url, reason in cluster.dead().items() if reason == "404 Not Found"}
    assert len(missing) == 8
    cluster.assert_counted()
    names = ["pages", "items", "stored", "fetch.ok", "fetch.http_error"]
    told = cluster.ask(partial(read_history, names=names, since_s=300))
    pages, items, stored, good, bad = (sum(n or 0 for n in one) for one in told.series.values())
    assert (pages, items) == (cluster.stats().done, len(cluster.items()))
    assert stored == cluster.stats().stored == items
    assert_kept(folder, shop)
    assert good + bad == sum(node.stat("downloader/response_count") for node in (one, two))


@pytest.mark.parametrize("reactor", ["select.Select", "asyncio.AsyncioSelector"])
def test_items_are_stored_with_their_own_page_whatever_the_reactor(
    open_shop, make_cluster, reactor
):
    module, _, kind = reactor.partition(".")
    cluster = make_cluster(open_shop(books=50, latency_s=0.05))

    node = cluster.run_odd(
        "owners", TWISTED_REACTOR=f"twisted.internet.{module}reactor.{kind}Reactor"
    )

    assert node.finish() == "finished"
    cluster.assert_owned()
    cluster.assert_counted()


def test_charts_show_the_items_that_only_scrapy_exports(open_shop, make_cluster):
    cluster = make_cluster(open_shop(books=50))
    file = cluster.folder / "items.jsonl"

    node = cluster.start("crawl", "books", "-o", str(file), ITEM_PIPELINES="{}")

    assert node.finish() == "finished"
    exported = len(file.read_text().splitlines())
    told = cluster.ask(partial(read_history, names=["items", "stored"], since_s=300))
    assert exported > 0
    assert {sum(n or 0 for n in one) for one in told.series.values()} == {exported}


def test_kill_9_of_a_node_loses_nothing_and_brings_nothing_twice(open_shop, make_cluster, until):
    shop = open_shop(latency_s=0.2)
    cluster = make_cluster(shop)
    victim = cluster.start(SKITTER_LEASE_S=2, CONCURRENT_REQUESTS=4)
    until(lambda: len(cluster.items()) > 5)

    with silenced(shop.url):
        cluster.kill_at_work(victim)
    heir = cluster.start(SKITTER_LEASE_S=2)

    assert heir.finish() == "finished"
    cluster.assert_complete()
    assert cluster.stats().lost > 0


@pytest.mark.chaos
def test_what_a_killed_node_held_is_taken_over_at_once_on_the_same_machine(
    open_shop, make_cluster, until
):
    shop = open_shop(latency_s=0.2)
    cluster = make_cluster(shop)
    victim = cluster.start(SKITTER_LEASE_S=3600, CONCURRENT_REQUESTS=4)
    until(lambda: len(cluster.items()) > 5)

    with silenced(shop.url):
        cluster.kill_at_work(victim)
    heir = cluster.start(SKITTER_LEASE_S=3600)

    assert heir.finish() == "finished"
    assert "from a node that died" in heir.log
    cluster.assert_complete()


@pytest.mark.chaos
def test_no_page_is_blamed_for_the_death_of_a_node_that_had_several(open_shop, make_cluster, until):
    shop = open_shop(latency_s=0.2)
    cluster = make_cluster(shop)
    victim = cluster.start(SKITTER_LEASE_S=3600, CONCURRENT_REQUESTS=4)
    until(lambda: len(cluster.items()) > 5)
    with silenced(shop.url):
        until(lambda: cluster.stats().leased > 3)
        cluster.kill_at_work(victim)

    async def take_back_strictly(frontier):
        await change_options(frontier, {"max_losses": 1})
        return await reclaim(frontier, await heartbeats(frontier))

    [(_, number)] = cluster.ask(take_back_strictly)
    assert number > 3
    assert not [why for why in cluster.dead().values() if "vanished" in why]


@pytest.mark.chaos
def test_a_node_that_is_interrupted_hands_back_and_a_new_one_goes_on(
    open_shop, make_cluster, until
):
    shop = open_shop(latency_s=0.05)
    cluster = make_cluster(shop)
    first = cluster.start(CONCURRENT_REQUESTS=2)
    until(lambda: len(cluster.items()) > 2)

    first.interrupt()

    assert first.finish() == "shutdown"
    assert (cluster.stats().leased, cluster.stats().crawled) == (0, False)
    assert cluster.start().finish() == "finished"
    cluster.assert_complete()
    assert fetched_twice(shop.log()) == []


def test_pause_restart_resume_and_cancel_from_outside(open_shop, make_cluster, until):
    shop = open_shop(latency_s=0.05)
    cluster = make_cluster(shop)
    node = cluster.start(CONCURRENT_REQUESTS=1)
    until(lambda: len(cluster.items()) > 2)

    cluster.set_state(State.PAUSED)
    until(lambda: cluster.stats().leased == 0)
    node.process.send_signal(signal.SIGTERM)
    assert node.finish() == "shutdown"
    asked = len(shop.log())
    node = cluster.start()
    assert [one.kind for one in until(lambda: cluster.ask(live_workers))] == ["scrapy"]
    assert len(shop.log()) == asked, "a paused job hands out nothing"

    cluster.set_state(State.CANCELLED)

    assert node.finish() == "cancelled"
    cluster.assert_accounted_for()
    cluster.set_state(State.RUNNING)
    assert cluster.start().finish() == "finished"
    cluster.assert_complete()


def test_a_delay_holds_over_all_nodes(open_shop, make_cluster):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    slow = {"DOWNLOAD_DELAY": 0.08, "CLOSESPIDER_ITEMCOUNT": 15}

    nodes = [cluster.start(**slow) for _ in range(2)]

    for node in nodes:
        node.finish()
    moments = [entry.monotonic for entry in shop.log()]
    assert len(moments) > 15
    # Two that were polite each for itself would need half of it; a busy machine only needs more.
    assert max(moments) - min(moments) > 0.75 * 0.08 * (len(moments) - 1)


def test_a_finished_job_that_is_not_to_persist_is_gone_and_the_next_run_begins_anew(
    open_shop, make_cluster
):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)

    assert cluster.start(SCHEDULER_PERSIST=False).finish() == "finished"
    with pytest.raises(JobMissing):
        cluster.stats()
    asked = len(shop.log())
    assert cluster.start(SCHEDULER_PERSIST=True).finish() == "finished"

    assert len(shop.log()) > 1.8 * asked
    assert len(cluster.items()) == 2 * len(expected_items(shop.expected))


def test_a_second_run_of_a_job_that_persists_asks_again_only_for_where_it_begins(
    open_shop, make_cluster
):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    cluster.start_whole().finish()
    asked = len(shop.log())

    assert cluster.start().finish() == "finished"

    assert shop.pages()[asked:] == ["/"]
    cluster.assert_complete()


TYPES = """
from pathlib import Path
from uuid import UUID

import scrapy
from scrapy_playwright.page import PageMethod


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


class Typed(scrapy.Spider):
    name = "typed"
    start_urls = ["{url}"]
    custom_settings = {{
        "ROBOTSTXT_OBEY": False,
        "SKITTER_META_TYPES": {{Point: (lambda one: [one.x, one.y], lambda two: Point(*two))}},
    }}

    def parse(self, response):
        values = [UUID(int=1), Path("/a"), Point(1, 2), PageMethod("click", "a", timeout=9)]
        for n in range(20):
            meta = {{"n": n, "from": response, "values": values}}
            yield scrapy.Request(f"{url}?{{n}}", self.typed, meta=meta)

    def typed(self, response):
        meta = response.meta
        *_, point, click = meta["values"]
        kinds = [type(one).__name__ for one in meta["values"]] + [meta["from"].css("a").get()[:2]]
        yield {{"upc": meta["n"], "kinds": kinds, "args": [point.y, click.args, click.kwargs]}}
"""
#: As scrapy-playwright 0.0.43 has it.
PLAYWRIGHT = """
class PageMethod:
    def __init__(self, method, *args, **kwargs):
        self.method, self.args, self.kwargs, self.result = method, args, kwargs, None
"""


def test_values_of_many_types_reach_the_other_node(open_shop, make_cluster, until):
    shop = open_shop(books=50, latency_s=0.1)
    cluster = make_cluster(shop)
    (cluster.folder / "scrapy_playwright").mkdir()
    (cluster.folder / "scrapy_playwright" / "page.py").write_text(PLAYWRIGHT)
    file = cluster.folder / "typed.py"
    file.write_text(TYPES.format(url=shop.url))
    cluster.create_paused()
    nodes = [cluster.start("runspider", str(file), CONCURRENT_REQUESTS=2) for _ in range(2)]
    until(lambda: len(cluster.ask(live_workers)) == 2)
    cluster.set_state(State.RUNNING)

    assert [node.finish() for node in nodes] == ["finished", "finished"]
    assert [one.pop("upc") for one in sorted(cluster.items(), key=lambda item: item["upc"])] == [
        *range(20)
    ]
    kinds = ["UUID", "PosixPath", "Point", "PageMethod", "<a"]
    expected = {"kinds": kinds, "args": [2, ["a"], {"timeout": 9}]}
    assert all({**one, "upc": 0} == {**expected, "upc": 0} for one in cluster.items())
    assert min(node.stat("scheduler/dequeued") for node in nodes) > 0


def test_a_crawl_of_which_every_request_died_says_why_and_exits_with_1(open_shop, make_cluster):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    file = cluster.folder / "futile.py"
    file.write_text(FUTILE.format(url=shop.url))

    assert cluster.start("runspider", str(file)).finish(code=1) == "finished"

    [said] = re.findall("all 3 requests became dead letters, .*", cluster.nodes[0].log)
    assert said.startswith(f"all 3 requests became dead letters, GET {shop.url}?")
    assert "because: meta['it'] is a builtins.object" in said


FUTILE = """
import scrapy


class Futile(scrapy.Spider):
    name = "futile"

    async def start(self):
        for n in range(3):
            yield scrapy.Request(f"{url}?{{n}}", meta={{"it": object()}})
"""


LATER = """
import time
from datetime import UTC, datetime, timedelta

import scrapy


class Later(scrapy.Spider):
    name = "later"
    custom_settings = {{"ROBOTSTXT_OBEY": False}}

    async def start(self):
        later = datetime.now(UTC) + timedelta(seconds=4)
        yield scrapy.Request("{url}?later", meta={{"not_before": later}})
        yield scrapy.Request("{url}?past", meta={{"not_before": 1.5}})
        yield scrapy.Request("{url}?now")

    def parse(self, response):
        moment = response.meta.get("not_before", 0)
        moment = moment.timestamp() if hasattr(moment, "hour") else 0
        yield {{"upc": response.url, "early_s": moment - time.time()}}
"""


def test_a_request_is_not_sent_before_its_time(open_shop, make_cluster, until):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    file = cluster.folder / "later.py"
    file.write_text(LATER.format(url=shop.url))
    nodes = [cluster.start("runspider", str(file)) for _ in range(2)]

    assert [node.finish() for node in nodes] == ["finished", "finished"]

    assert sorted(shop.pages(), key=len) == ["/?now", "/?past", "/?later"]
    assert all(item["early_s"] <= 0.1 for item in cluster.items())
    cluster.assert_accounted_for()
