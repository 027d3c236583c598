"""A Scrapy node is polite by the log of the site, and the frontier knows how its pages went."""

from __future__ import annotations

import asyncio

import pytest

from crawl.clocked import clocked_site
from shops import silenced
from skitter.explain import explain_url
from skitter.frontier.audit.politeness import audit_politeness
from skitter.frontier.audit.why import look_at_host
from skitter.frontier.jobs import open_job
from skitter.frontier.records.health import read_quality
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import live_workers
from skitter.model import State
from skitter.observe.quality import total
from skitter.scrapy.inside.downloads import AGAIN

pytestmark = pytest.mark.timeout(300)

DELAY_S = 0.8
#: A site sees when requests arrive, which on a busy machine is not when they left.
SMALLEST_S = 0.55 * DELAY_S

SPIDER = """
import time
from itertools import count
import scrapy

class Clock(scrapy.Spider):
    name = "clock"
    start_urls = [{url!r}]
    numbers = count()

    def parse(self, response):
        if next(self.numbers) % 3 == 1:
            time.sleep({block_s})  # as a callback that works, or waits for a database
        yield {{"url": response.url}}
        yield from response.follow_all(css="a", callback=self.parse)
"""


def run(cluster, site, *, nodes=1, block_s=0.0, **settings):
    file = cluster.folder / "clock.py"
    file.write_text(SPIDER.format(url=site.url, block_s=block_s))
    given: dict[str, object] = {
        "DOWNLOAD_DELAY": DELAY_S,
        "ROBOTSTXT_OBEY": True,
        "SCHEDULER_PERSIST": True,
    }
    given |= {"SKITTER_ALLOW_HOSTS": "127.0.0.1", **settings}
    begun = [cluster.start("runspider", str(file), **given) for _ in range(nodes)]
    assert [node.finish() for node in begun] == ["finished"] * nodes


@pytest.mark.parametrize("in_flight", [1, 4])
def test_the_delay_is_kept_between_requests_whatever_holds_the_engine_up(
    open_shop, make_cluster, in_flight
):
    cluster = make_cluster(open_shop(books=50))
    with clocked_site(pages=9, robots_s=0.95 * DELAY_S) as site:
        settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": in_flight}
        run(cluster, site, nodes=2, block_s=0.8 * DELAY_S, **settings)

    assert {"/", *(f"/p/{n}" for n in range(1, 9))} <= set(site.paths)
    assert min(site.gaps) >= SMALLEST_S
    cluster.assert_accounted_for()


async def test_what_a_host_answered_counts_and_what_came_of_its_pages_is_known(
    open_shop, make_cluster
):
    cluster = make_cluster(open_shop(books=50))
    with clocked_site(pages=5, busy={"/p/2": "2"}) as site:
        await asyncio.to_thread(run, cluster, site, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    busy_at = next(at for at, path in site.arrivals if path == "/p/2")
    assert min(at for at, _ in site.arrivals if at > busy_at) - busy_at >= 1.9  # Retry-After

    async with connect(cluster.server_url) as server:
        frontier = await open_job(server, cluster.job)
        stats = await frontier.stats()
        done = (await explain_url(frontier, f"{site.url}p/1")).done
        busy = (await explain_url(frontier, f"{site.url}p/2")).done
        [host] = await audit_politeness(frontier, allows=lambda *_: True)
    assert (stats.incidents, stats.dead) == (1, 0)
    assert done is not None
    assert (done.status, done.items, done.note) == (200, 1, "")
    assert done.size_bytes > 0
    assert busy is not None
    assert (busy.status, busy.note) == (503, AGAIN)
    assert host.requests == len(site.arrivals)
    assert host.problems == []


async def test_a_block_page_is_an_incident_and_its_host_rests(open_shop, make_cluster):
    cluster = make_cluster(open_shop(books=50))
    with clocked_site(pages=4, guarded={"/p/2": 200, "/p/3": 403}) as site:
        settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "SKITTER_BLOCKED_REST_S": 3 * DELAY_S}
        await asyncio.to_thread(run, cluster, site, DOWNLOAD_DELAY=DELAY_S / 4, **settings)
    moments = sorted(at for at, path in site.arrivals if path in ("/p/2", "/p/3"))
    assert moments[1] - moments[0] >= 2.5 * DELAY_S

    async with connect(cluster.server_url) as server:
        frontier = await open_job(server, cluster.job)
        stats = await frontier.stats()
        host = await look_at_host(frontier, "127.0.0.1")
        dead = await explain_url(frontier, f"{site.url}p/3")
        [history] = await read_quality(frontier)
    assert (stats.blocked, stats.dead) == (2, 1)
    assert 1 <= stats.incidents <= 2
    assert host.delay(frontier.options).why == "it showed a block page"
    assert dead.last_error == "blocked by Cloudflare: 403 Forbidden"
    found = total(history.windows)
    assert (found.pages, found.blocked) == (2, 2)


def test_limits_of_a_domain_hold_for_all_nodes_or_for_each(open_shop, make_cluster, until):
    """Both nodes are held at their first pages, and how many have arrived is counted."""
    arrived = {}
    for per in ("job", "node"):
        shop = open_shop(books=50)
        cluster = make_cluster(shop)
        cluster.create_paused()
        file = cluster.folder / "many.py"
        file.write_text(MANY.format(url=shop.url))
        limits = {"CONCURRENT_REQUESTS_PER_DOMAIN": 2, "SKITTER_LIMITS_PER": per}
        nodes = [cluster.start("runspider", str(file), **limits) for _ in range(2)]
        until(lambda cluster=cluster: len(cluster.ask(live_workers)) == 2)
        until(lambda cluster=cluster: cluster.stats().pending == 40)
        with silenced(shop.url):
            cluster.set_state(State.RUNNING)
            until(
                lambda cluster=cluster, per=per: (
                    cluster.stats().leased >= {"job": 2, "node": 8}[per]
                )
            )
            arrived[per] = cluster.stats().leased
        assert [node.finish() for node in nodes] == ["finished", "finished"]
        said = [
            node.log.count("WARNING: 2 nodes share the limits of a domain: 2") for node in nodes
        ]
        assert max(said) == (per == "job")  # once, by those that saw the other
        assert len(shop.pages()) == 40

    assert arrived["job"] == 2


MANY = """
import scrapy


class Many(scrapy.Spider):
    name = "many"
    custom_settings = {{"ROBOTSTXT_OBEY": False}}

    async def start(self):
        for n in range(40):
            yield scrapy.Request(f"{url}?{{n}}")

    def parse(self, response):
        pass
"""
