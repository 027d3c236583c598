"""robots.txt for a fleet: real sites, a real server, a cache for each worker."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

from chaos.rig import until
from fetch.site import Exchange, redirect, reply, serve
from skitter.engine.assembly import open_worker
from skitter.engine.caches import (
    DISALLOWED,
    LARGE_BYTES,
    NO_ANSWER_S,
    PATIENCE_S,
    RobotsCache,
)
from skitter.engine.verdict import Bury, Retry
from skitter.fetch import Guard, HttpFetcher, RobotsRules
from skitter.fetch.robots import FRESH_S, LOST_AFTER_S, TROUBLE_S
from skitter.frontier.audit.why import look_at_host
from skitter.frontier.jobs import create_job
from skitter.frontier.sites.learned import CLAIM_MS, KEEP_S, ask_robots, store_robots
from skitter.model import Request
from skitter.settings import JobOptions, Politeness, WorkerConfig
from skitter.spider import Spider
from skitter.urls import identify

AGENT = "Skitter/0.1"
SECRET = reply(b"User-agent: *\nDisallow: /secret\n")

Open = Callable[[], RobotsCache]


@pytest.fixture
async def open_cache(frontier) -> AsyncIterator[Open]:
    """A worker's cache; each new one knows nothing."""
    guard = Guard(frozenset({"127.0.0.1"}))
    async with HttpFetcher(guard=guard) as fetcher:
        yield lambda: RobotsCache(frontier, fetcher, guard, AGENT)


async def ask(cache: RobotsCache, site, path: str = "/") -> RobotsRules:
    url = site.url(path)
    return await cache.rules(url, identify(url).host)


async def test_many_workers_and_many_pages_ask_the_site_once(open_cache):
    async with serve({"/robots.txt": SECRET}) as site:
        caches = [open_cache() for _ in range(3)]
        found = await asyncio.gather(*(ask(cache, site) for cache in caches for _ in range(10)))
        assert site.paths == ["/robots.txt"]
    for rules in found:
        assert rules.allows(site.url("/page"), AGENT)
        assert not rules.allows(site.url("/secret"), AGENT)


async def test_what_a_worker_wanted_to_fetch_and_died_is_fetched_by_another(
    frontier, open_cache, clock
):
    async with serve({"/robots.txt": SECRET}) as site:
        host = identify(site.url()).host
        assert (await ask_robots(frontier, host)).is_ours  # and it is never heard of again
        waiting = asyncio.create_task(ask(open_cache(), site))
        clock.advance(CLAIM_MS / 1000 - 1)
        assert not (await ask_robots(frontier, host)).is_ours
        assert site.paths == []

        clock.advance(1)

        assert (await waiting).status == 200
        assert site.paths == ["/robots.txt"]


async def test_rules_are_believed_for_a_day_here_and_elsewhere(frontier, open_cache, clock):
    async with serve({"/robots.txt": SECRET}) as site:
        host = identify(site.url()).host
        await ask(open_cache(), site)
        clock.advance(FRESH_S - 60)
        late = open_cache()
        await ask(late, site)
        assert late._known[host][1] - time.monotonic() <= 60  # not a day from now
        assert site.paths == ["/robots.txt"]

        clock.advance(60)

        await ask(open_cache(), site)
        assert site.paths == ["/robots.txt"] * 2


@pytest.mark.parametrize("status", [401, 404, 410])
async def test_a_site_without_rules_allows_everything(open_cache, status):
    async with serve({"/robots.txt": reply(b"", status=status)}) as site:
        assert (await ask(open_cache(), site)).allows(site.url("/secret"), AGENT)


async def test_a_redirect_is_followed_and_its_rules_are_those_of_the_first_host(open_cache):
    async with serve({"/rules.txt": SECRET}) as other:
        moved = {"/robots.txt": redirect(other.url("/rules.txt"))}
        async with serve(moved) as site:
            rules = await ask(open_cache(), site)
            assert (site.paths, other.paths) == (["/robots.txt"], ["/rules.txt"])
            assert not rules.allows(site.url("/secret"), AGENT)


async def test_a_server_error_forbids_everything_for_now(open_cache):
    async with serve({"/robots.txt": reply(b"", status=503)}) as site:
        cache = open_cache()
        rules = await ask(cache, site)

        assert not await cache.may_fetch(rules, site.url("/page"))
        assert cache.verdict(rules, site.url("/page")) == Retry(
            "robots.txt: nothing may be fetched for now (it answered 503).",
            after_s=TROUBLE_S,
            rest_s=TROUBLE_S,
        )


async def test_pages_wait_for_an_hour_of_trouble_and_not_for_thirty_days(open_cache):
    cache = open_cache()

    def verdict(lasted_s: float) -> object:
        rules = RobotsRules.from_response(500, at=lasted_s, unreachable_since=0.0)
        return type(cache.verdict(rules, "https://a.test/"))

    assert [verdict(s) for s in (0, PATIENCE_S - 1, PATIENCE_S)] == [Retry, Retry, Bury]


def nothing(page):
    pass


async def has_retried(frontier) -> bool:
    return bool((await frontier.stats()).retried)


async def test_trouble_rests_the_host_and_costs_its_other_pages_no_retry(server, job):
    async with serve({"/robots.txt": reply(b"", "retry-after: 900", status=503)}) as site:
        polite = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=1))
        frontier = await create_job(server, job, options=polite)
        spider = Spider(job, [site.url(f"/{n}") for n in range(20)])
        spider.page(nothing)
        await frontier.add([seed async for seed in spider.seeds()])
        async with open_worker(frontier, spider, WorkerConfig()) as worker:
            running = asyncio.create_task(worker.run())
            await until(lambda: has_retried(frontier), what="a page is retried")
            worker.stop()
            await running
        stats = await frontier.stats()
        host = await look_at_host(frontier, identify(site.url()).host)
    assert (stats.retried, stats.pending, stats.dead) == (1, 19, 0)
    assert host.blocked_until - await frontier.server_time() > 800
    assert site.paths == ["/robots.txt"]


async def test_the_fleet_remembers_since_when_a_site_has_been_in_trouble(open_cache, clock):
    async with serve({"/robots.txt": reply(b"", status=500)}) as site:
        first = await ask(open_cache(), site)
        for _ in range(3):
            clock.advance(FRESH_S)
            again = await ask(open_cache(), site)
            assert again.unreachable_since == first.unreachable_since
            assert again.fetched_at > first.fetched_at
        assert len(site.paths) == 4


async def test_a_dead_worker_does_not_take_that_memory_along(frontier, open_cache, clock):
    async with serve({"/robots.txt": reply(b"", status=500)}) as site:
        host = identify(site.url()).host
        first = await ask(open_cache(), site)
        clock.advance(TROUBLE_S)
        assert (await ask_robots(frontier, host)).is_ours  # a worker that dies now
        clock.advance(CLAIM_MS / 1000)

        again = await ask(open_cache(), site)

    assert again.unreachable_since == first.unreachable_since


async def test_after_thirty_days_of_trouble_everything_is_allowed(frontier, open_cache, clock):
    async with serve({"/robots.txt": reply(b"", status=500)}) as site:
        now = time.time()
        old = RobotsRules.from_response(500, at=now, unreachable_since=now - LOST_AFTER_S - 1)
        host = identify(site.url()).host
        await store_robots(frontier, host, old.to_bytes(), ttl_s=1, keep_s=KEEP_S)
        clock.advance(2)

        rules = await ask(open_cache(), site)

        assert site.paths == ["/robots.txt"]
        assert rules.allows(site.url("/page"), AGENT)


async def test_an_answer_ends_the_trouble(open_cache, clock):
    pages = {"/robots.txt": reply(b"", status=500)}
    async with serve(pages) as site:
        await ask(open_cache(), site)
        clock.advance(TROUBLE_S)
        pages["/robots.txt"] = SECRET

        rules = await ask(open_cache(), site)

        assert rules.unreachable_since is None
        assert rules.allows(site.url("/page"), AGENT)


async def test_silence_is_asked_about_soon_and_then_more_rarely(frontier, open_cache, clock):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        host = identify(url).host
        rules = await open_cache().rules(url, host)
        assert (rules.status, rules.reason) == (0, "nothing listens on that port")
        assert (await ask_robots(frontier, host)).left_s == NO_ANSWER_S

        an_hour_ago = time.time() - 3600
        old = RobotsRules.unreachable("silence", at=time.time(), unreachable_since=an_hour_ago)
        await store_robots(frontier, host, old.to_bytes(), ttl_s=1, keep_s=KEEP_S)
        clock.advance(2)
        await open_cache().rules(url, host)

        assert (await ask_robots(frontier, host)).left_s == TROUBLE_S


async def test_a_crawl_delay_becomes_the_delay_of_the_host(frontier, open_cache):
    body = b"User-agent: skitter\nCrawl-delay: 7\nDisallow: /secret\n"
    async with serve({"/robots.txt": reply(body)}) as site:
        await ask(open_cache(), site)
        facts = await look_at_host(frontier, identify(site.url()).host)
    assert facts.delay(frontier.options) == (7, "robots.txt asks for it")


async def test_a_delay_that_is_no_longer_asked_for_is_forgotten(frontier, open_cache, clock):
    pages = {"/robots.txt": reply(b"User-agent: *\nRequest-rate: 1/20s\n")}
    async with serve(pages) as site:
        host = identify(site.url()).host
        await ask(open_cache(), site)
        assert (await look_at_host(frontier, host)).delay(frontier.options).seconds == 20
        key = frontier.shard_for(host).keys.key("robots", host)
        assert await frontier.server.command("PTTL", key) > 2000 * FRESH_S
        pages["/robots.txt"] = reply(b"User-agent: *\nDisallow:\n")
        clock.advance(FRESH_S)
        await ask(open_cache(), site)
        assert (await look_at_host(frontier, host)).delay(frontier.options).seconds == 0


async def test_a_delay_of_days_is_cut_and_the_log_says_so(frontier, open_cache):
    lines: list[str] = []
    async with serve({"/robots.txt": reply(b"User-agent: *\nCrawl-delay: 86400\n")}) as site:
        cache = open_cache()
        cache.log = lambda level, text: lines.append(text)
        await ask(cache, site)
        facts = await look_at_host(frontier, identify(site.url()).host)
    assert facts.delay(frontier.options).seconds == 3600
    assert "robots.txt asks for 86,400 s between requests; 3,600 s is the longest" in lines[0]


async def test_a_page_that_is_disallowed_is_dead_and_no_line_is_looked_for(open_cache):
    async with serve({"/robots.txt": SECRET}) as site:
        cache = open_cache()
        rules = await ask(cache, site)
        assert cache.verdict(rules, site.url("/secret")) == Bury(DISALLOWED)


async def test_large_rules_are_obeyed_too(open_cache):
    body = b"User-agent: *\n" + b"Disallow: /*x$\n" * LARGE_BYTES + b"Disallow: /secret\n"
    async with serve({"/robots.txt": reply(body)}) as site:
        cache = open_cache()
        rules = await ask(cache, site)
        assert not await cache.may_fetch(rules, site.url("/secret"))
        assert await cache.may_fetch(rules, site.url("/page"))
        links = [Request(url=site.url(path)) for path in ("/page", "/secret")]
        assert cache.split(links) == (links[:1], links[1:])


#: Larger than anybody reads of a robots.txt: it would take minutes to parse.
HUGE = RobotsRules(status=201, fetched_at=0.0, body=b"Disallow: /*a*b\n" * 100_000)


@pytest.mark.parametrize("record", [b"\xc1 nonsense", HUGE.to_bytes()], ids=["nonsense", "huge"])
async def test_a_record_that_makes_no_sense_is_fetched_anew(frontier, open_cache, record):
    async with serve({"/robots.txt": SECRET}) as site:
        await store_robots(frontier, identify(site.url()).host, record, ttl_s=3600)

        assert (await ask(open_cache(), site)).status == 200


async def test_the_request_for_it_leaves_through_the_gate_of_who_asked_first(open_cache):
    left, numbers = [], count()

    async def leave() -> None:
        left.append(next(numbers))

    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0)
        await exchange.send(SECRET)

    async with serve({"/robots.txt": slow}) as site:
        cache, host = open_cache(), identify(site.url()).host
        await asyncio.gather(*(cache.rules(site.url(), host, leave=leave) for _ in range(5)))
    assert left == [0]
