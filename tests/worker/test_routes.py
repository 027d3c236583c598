"""Routes at work: real proxies on loopback, which alone know where the shops are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from chaos.rig import until
from conftest import rude
from fetch.site import Site, reply, serve
from proxies import BLOCK_PAGE, Proxy, open_proxy
from skitter.engine.assembly import open_worker
from skitter.engine.departures import TooEarly
from skitter.engine.proxies.bandit import Exit
from skitter.engine.proxies.choosing import Ledger, Routes
from skitter.engine.proxies.routed import RoutedFetcher, RoutedRenderer, open_routes
from skitter.engine.proxies.table import route_rows
from skitter.engine.pulse import cancel_all
from skitter.errors import AddressRefused, NoRoute, ProxyFault
from skitter.fetch import FetchOptions, Guard, HttpFetcher, StaticFetcher
from skitter.fetch.browser.render import Render
from skitter.fetch.http.guard import Resolver
from skitter.frontier.jobs import create_job, purge_job
from skitter.frontier.sites.sessions import FleetRoutes, purse_of
from skitter.frontier.transport.connection import connect
from skitter.frontier.workers import read_log
from skitter.model import Request, Response, State
from skitter.settings import Retries, RouteOptions, WorkerConfig, Workers
from skitter.settings.proxy import make_route
from skitter.spider import Spider

PAGE = b"<title>Books</title>" + b"x" * 500


async def nothing_resolves(name: str) -> tuple[str, ...]:
    raise socket.gaierror(name)


class Town:
    """Proxies by name, a site behind them, and fetchers that choose among the proxies."""

    def __init__(self, server, job: str, site: Site) -> None:
        self.server, self.job, self.site = server, job, site
        self.proxies: dict[str, Proxy] = {}
        self.log: list[str] = []
        self.stack = AsyncExitStack()

    def note(self, level: str, text: str) -> None:
        self.log.append(text)

    def host(self, name: str = "shop") -> str:
        return f"{name}-{self.job}.example"

    def url(self, name: str = "shop", path: str = "/") -> str:
        return f"http://{self.host(name)}{path}"

    def name(self, proxy: str) -> str:
        """Of its route: what the fleet knows is shared by all tests."""
        return f"{proxy}-{self.job}"

    async def add(self, name: str, **behaviour: Any) -> Proxy:
        names = {self.host(one): ("127.0.0.1", self.site.port) for one in ("shop", "books")}
        proxy = Proxy(names=names, **behaviour)
        self.proxies[name] = await self.stack.enter_async_context(open_proxy(proxy))
        return proxy

    def route(self, proxy: str, **fields: Any):
        url = {} if fields.get("kind") == "direct" else {"url": self.proxies[proxy].url()}
        return make_route({"name": self.name(proxy), **url, **fields})

    @asynccontextmanager
    async def fetcher(self, *routes, seed: int = 1, **options: Any) -> AsyncIterator[RoutedFetcher]:
        resolver = Resolver(lookup=nothing_resolves)
        exits = {one.name: Exit(one, "word") for one in routes}
        fetch = FetchOptions(max_body_mb=0.1, connect_timeout_s=3, total_timeout_s=5)
        hosts = frozenset(urlsplit(one.url).netloc for one in routes if one.kind == "api")
        async with (
            HttpFetcher(fetch, resolver=resolver) as inner,
            HttpFetcher(fetch, guard=Guard(hosts)) as api,
            Ledger(FleetRoutes.on(self.server), self.note, exits.keys()) as ledger,
        ):
            choice = RouteOptions(**options)
            opened = Routes(exits, ledger, choice, fetch, chance=Random(seed))
            yield RoutedFetcher(inner, opened, Guard(), api)

    async def counts(self, proxy: str) -> dict[str, float]:
        known = await FleetRoutes.on(self.server).settle()
        return known.routes.get(self.name(proxy), {})


@pytest.fixture
async def town(server, job) -> AsyncIterator[Town]:
    async with serve({"/": reply(PAGE), "/gone": reply(b"", status=404)}) as site:
        town = Town(server, job, site)
        async with town.stack:
            yield town


async def ask(fetcher: RoutedFetcher, url: str, times: int) -> None:
    for _ in range(times):
        try:
            await fetcher.fetch(Request(url=url))
        except ProxyFault:
            continue


async def until_most(fetcher: RoutedFetcher, url: str, proxy: Proxy, *, most: int) -> int:
    """Requests until 16 of 20 went through the proxy."""
    recent: list[bool] = []
    host = urlsplit(url).hostname or ""
    for number in range(most + 1):
        before = proxy.asked[host]
        await ask(fetcher, url, 1)
        recent = [*recent[-19:], proxy.asked[host] > before]
        if sum(recent) >= 16:
            return number
    raise AssertionError(f"not within {most} requests: {sum(recent)} of the last 20")


async def test_traffic_moves_to_the_best_per_domain_and_back_when_it_recovers(town):
    good = await town.add("good", banned_by={town.host("books")})
    slow = await town.add("slow", delay_s=0.01)
    dead = await town.add("dead")
    await dead.stop()
    locked = await town.add("locked", credentials="customer:wrong")
    routes = [
        town.route("good"),
        town.route("slow", price_per_request=0.01),
        town.route("dead"),
        town.route("locked", user="customer", secret="env:X"),
    ]
    async with town.fetcher(*routes, success_rate=0.6, seed=1) as fetcher:
        await until_most(fetcher, town.url("shop"), good, most=200)
        await until_most(fetcher, town.url("books"), slow, most=200)
        good.banned_by.add(town.host("shop"))
        await until_most(fetcher, town.url("shop"), slow, most=200)
        good.banned_by.clear()
        await until_most(fetcher, town.url("shop"), good, most=150)
    for name in ("dead", "locked"):  # they were tried, and not often
        assert 1 <= (await town.counts(name))["fault"] <= 10
    assert not locked.asked


async def test_of_two_that_work_the_fast_one_is_taken(town):
    fast = await town.add("fast")
    await town.add("slow", delay_s=0.2)
    async with town.fetcher(town.route("fast"), town.route("slow")) as fetcher:
        await until_most(fetcher, town.url(), fast, most=100)


async def test_what_one_worker_learned_another_knows(town):
    await town.add("banned", banned_by={town.host()})
    good = await town.add("good")
    routes = [town.route("banned"), town.route("good", price_per_request=0.01)]
    async with town.fetcher(*routes) as first:
        await ask(first, town.url(), 60)
    before = good.asked[town.host()]
    async with town.fetcher(*routes, seed=7) as second:
        await ask(second, town.url(), 10)
    assert good.asked[town.host()] - before >= 8


@pytest.mark.parametrize(
    ("path", "status", "verdict"), [("/", 200, "good"), ("/gone", 404, "page")]
)
async def test_pages_are_good_or_their_own_fault(town, path, status, verdict):
    await town.add("a")
    async with town.fetcher(town.route("a", price_per_request=0.25)) as fetcher:
        response = await fetcher.fetch(Request(url=town.url(path=path)))
    assert response.status == status
    counts = await town.counts("a")
    assert (counts[verdict], counts["sent"], counts["money"]) == (1, 1, 250_000)


async def test_a_ban_and_a_soft_block_count_against_route_and_domain(town):
    await town.add("a", banned_by={town.host()})
    town.site.pages["/soft"] = reply(BLOCK_PAGE, "content-type: text/html")
    async with town.fetcher(town.route("a")) as fetcher:
        assert (await fetcher.fetch(Request(url=town.url()))).status == 403
        soft = Request(url=town.url("books", "/soft"))
        assert (await fetcher.fetch(soft)).status == 200
    assert (await town.counts("a"))["ban"] == 2


async def test_when_every_route_rests_pages_go_back_unharmed(town, monkeypatch):
    monkeypatch.setattr("skitter.engine.proxies.choosing.PATIENCE_S", 0.01)
    proxy = await town.add("a")
    await proxy.stop()
    async with town.fetcher(town.route("a")) as fetcher:
        while not town.log:
            with suppress(ProxyFault, TooEarly):
                await fetcher.fetch(Request(url=town.url()))
        with pytest.raises(TooEarly):
            await fetcher.fetch(Request(url=town.url()))
    assert "does not work: it is paused for 10 s" in town.log[0]
    assert (await town.counts("a"))["sent"] == 3


async def test_a_session_keeps_its_route_and_its_name_at_the_gateway(town):
    one = await town.add("one", credentials="me:word")
    two = await town.add("two", credentials="me:word")
    template = {"user": "me", "secret": "env:X", "template": "{user}[-session-{session}]"}
    routes = [town.route("one", **template), town.route("two", **template)]
    async with town.fetcher(*routes) as fetcher:
        chosen = await fetcher.routes.choose(town.url())
        for number in (1, 1, 2):
            wish = f"route://{chosen}/session-{number}"
            await fetcher.fetch(Request(url=town.url()), proxy=wish)
    used, other = (one, two) if chosen == town.name("one") else (two, one)
    first, again, second = used.users
    assert first == again != second
    assert not other.users


async def test_a_request_may_ask_for_a_country(town):
    await town.add("any", credentials="me:word")
    german = await town.add("german", credentials="me:word")
    routes = [
        town.route("any", user="me", secret="env:X"),
        town.route("german", user="me", secret="env:X", template="{user}[-{country}]"),
    ]
    async with town.fetcher(*routes) as fetcher:
        for _ in range(5):
            await fetcher.fetch(Request(url=town.url(), country="de"))
        fetcher.routes.exits.pop(routes[1].name)
        with pytest.raises(NoRoute):
            await fetcher.fetch(Request(url=town.url(), country="de"))
    assert german.users == ["me-de"] * 5


async def test_concurrency_and_rate_hold_for_the_fleet(town):
    proxy = await town.add("a", delay_s=0.02)
    async with AsyncExitStack() as stack:
        route = town.route("a", max_in_flight=2)
        fetchers = [await stack.enter_async_context(town.fetcher(route)) for _ in range(3)]
        work = (ask(one, town.url(), 4) for one in fetchers)
        await asyncio.gather(*work)
    assert proxy.most_at_once <= 2
    assert proxy.asked[town.host()] == 12


async def test_an_api_gets_the_url_and_the_answer_is_the_pages(town):
    asked = []

    async def answer(exchange) -> None:
        target = exchange.head.split()[1].decode()
        asked.append(parse_qs(urlsplit(target).query))
        await exchange.send(reply(PAGE, "connection: close"))

    town.site.pages = Everything(answer)
    api = make_route(
        {
            "name": town.name("api"),
            "kind": "api",
            "url": town.site.url("/v1"),
            "template": "api_key={secret}&url={url}",
            "price_per_request": 0.01,
            "billed": "good",
        }
    )
    async with town.fetcher(api) as fetcher:
        response = await fetcher.fetch(Request(url=town.url(path="/a?b=c")))
        assert (response.url, response.body) == (town.url(path="/a?b=c"), PAGE)
        with pytest.raises(AddressRefused):
            await fetcher.fetch(Request(url=town.site.url("/v1")))
    assert asked == [{"api_key": ["word"], "url": [town.url(path="/a?b=c")]}]
    assert (await town.counts("api"))["money"] == 10_000


@pytest.mark.parametrize(
    ("status", "verdict", "money"), [(401, "fault", 0), (500, "ban", 0), (404, "page", 10_000)]
)
async def test_an_apis_own_failures_are_told_apart(town, status, verdict, money):
    town.site.pages = Everything(reply(b"", status=status))
    fields = {"kind": "api", "url": town.site.url("/"), "template": "key={secret}&url={url}"}
    prices = {"price_per_request": 0.01, "billed": "good"}
    api = make_route({"name": town.name("api"), **fields, **prices})
    async with town.fetcher(api) as fetcher:
        await ask(fetcher, town.url(), 1)
    counts = await town.counts("api")
    assert counts[verdict] == 1
    assert counts.get("money", 0) == money


async def test_an_api_that_is_away_is_a_proxys_fault_and_its_key_stays_secret(town):
    fields = {"kind": "api", "url": "http://127.0.0.1:1/", "template": "key={secret}&url={url}"}
    async with town.fetcher(make_route({"name": town.name("api"), **fields})) as fetcher:
        with pytest.raises(ProxyFault) as caught:
            await fetcher.fetch(Request(url=town.url()))
    assert "word" not in str(caught.value)
    assert caught.value.url == town.url()


class Everything(dict[str, Any]):
    """The same page at every path."""

    def __init__(self, page: Any) -> None:
        super().__init__()
        self.page = page

    def get(self, key: str, default: Any = None) -> Any:
        return self.page


class Screen:
    """Stands for a browser: remembers the way it went."""

    def __init__(self) -> None:
        self.proxies: list[str | None] = []

    async def render(self, request, how, *, leave=None, proxy=None) -> Response:
        await leave()
        self.proxies.append(proxy)
        return Response(url=request.url, status=200, body=PAGE)


async def test_a_browser_goes_by_routes_and_not_by_apis(town):
    proxy = await town.add("a")
    fields = {"kind": "api", "url": "http://127.0.0.1:1/", "template": "url={url}"}
    api = make_route({"name": town.name("api"), **fields})
    screen = Screen()
    async with town.fetcher(town.route("a"), api) as fetcher:
        for _ in range(10):
            browser = RoutedRenderer(fetcher, screen)
            await browser.render(Request(url=town.url()), Render())
    assert screen.proxies == [proxy.url()] * 10
    assert (await town.counts("a"))["good"] == 10


async def test_workers_of_a_region_use_its_routes(server, town):
    for name in ("here", "there", "anywhere"):
        await town.add(name)
    routes = (
        town.route("here", regions=("eu",)),
        town.route("there", regions=("us",)),
        town.route("anywhere"),
    )
    config = WorkerConfig(proxies=routes, routes=RouteOptions(region="eu"))
    async with open_routes(server, config, town.note) as (opened, _):
        assert set(opened.exits) == {town.name("here"), town.name("anywhere")}
    async with open_routes(server, WorkerConfig(proxies=routes), town.note) as (opened, _):
        assert len(opened.exits) == 3


# --- whole workers --------------------------------------------------------------------------------


def spider_of(job: str) -> Spider:
    spider = Spider(job, [])
    spider.page(title)
    return spider


def title(page) -> None:
    assert page.css_first("title").text() == "Books"


async def work(url: str, job: str, config: WorkerConfig) -> None:
    async with connect(url) as server:
        frontier = await create_job(server, job)
        resolver = Resolver(lookup=nothing_resolves)
        async with (
            HttpFetcher(config.fetch, resolver=resolver) as fetcher,
            open_worker(frontier, spider_of(job), config, fetcher=fetcher) as worker,
        ):
            paused = asyncio.create_task(stop_when_paused(frontier, worker))
            try:
                await worker.run()
            finally:
                await cancel_all([paused])


async def stop_when_paused(frontier, worker) -> None:
    async def is_paused() -> bool:
        return (await frontier.stats()).state is State.PAUSED

    await until(is_paused, what="the crawl is paused")
    worker.stop()


@pytest.mark.parametrize(
    "budget",
    [
        {"budget_requests": 37},
        {"price_per_request": 0.01, "budget": 0.37},
        {"price_per_request": 0.01, "max_money": 0.37},
    ],
    ids=["requests", "money", "money of the job"],
)
async def test_a_budget_is_exact_with_four_workers_and_then_the_crawl_pauses(
    server, server_url, job, town, budget
):
    proxy = await town.add("paid")
    max_money, budget = budget.get("max_money"), budget | {}
    budget.pop("max_money", None)
    frontier = await create_job(server, job, options=rude(max_money=max_money))
    town.site.pages = Everything(reply(PAGE, "content-type: text/html"))
    await frontier.add([Request(url=town.url(path=f"/{n}")) for n in range(100)])
    config = WorkerConfig(
        job=job,
        fetch=FetchOptions(obey_robots=False, max_body_mb=0.01),
        workers=Workers(concurrency=8),
        proxies=(town.route("paid", **budget),),
    )
    await asyncio.gather(*(work(server_url, job, config) for _ in range(4)))
    assert proxy.asked[town.host()] == 37
    stats = await frontier.stats()
    assert (stats.done, stats.pending + stats.leased, stats.dead) == (37, 63, 0)
    assert stats.state is State.PAUSED
    lines = [line.text for line in await read_log(frontier)]
    assert any("the crawl is paused" in line for line in lines)
    assert (await town.counts("paid"))["money"] in (0, 370_000)
    assert not [row for row in await route_rows(server) if job in row.proxy.split()]
    await purge_job(frontier)
    assert purse_of(job) not in (await FleetRoutes.on(server).settle()).routes


async def test_a_budget_of_bytes_is_never_exceeded(server, server_url, job, town):
    await town.add("paid")
    frontier = await create_job(server, job, options=rude())
    town.site.pages = Everything(reply(PAGE, "content-type: text/html"))
    await frontier.add([Request(url=town.url(path=f"/{n}")) for n in range(300)])
    config = WorkerConfig(
        job=job,
        fetch=FetchOptions(obey_robots=False, max_body_mb=0.01, max_header_bytes=8192),
        workers=Workers(concurrency=4),
        proxies=(town.route("paid", budget_mb=0.1),),
    )
    await asyncio.gather(*(work(server_url, job, config) for _ in range(4)))
    spent = (await town.counts("paid"))["bytes"]
    reserve = 0.01 * 2**20 + 8192
    assert 0.1 * 2**20 - reserve < spent <= 0.1 * 2**20


async def test_a_crawl_gets_around_a_ban_without_slowing_the_host(server, server_url, job, town):
    banned = await town.add("banned", banned_by={town.host()})
    await town.add("good")
    frontier = await create_job(
        server, job, options=replace(rude(), retries=Retries(max_retries=30, base_s=0.01))
    )
    town.site.pages = Everything(reply(PAGE, "content-type: text/html"))
    await frontier.add([Request(url=town.url(path=f"/{n}")) for n in range(60)])
    config = WorkerConfig(
        job=job,
        fetch=FetchOptions(obey_robots=False),
        workers=Workers(concurrency=8),
        proxies=(town.route("banned"), town.route("good", price_per_request=0.01)),
    )
    await asyncio.gather(*(work(server_url, job, config) for _ in range(2)))
    stats = await frontier.stats()
    assert (stats.done, stats.dead, stats.incidents) == (60, 0, 0)
    assert stats.blocked == banned.asked[town.host()] > 0


async def test_without_routes_nothing_is_asked_of_the_fleet(server, server_url, job):
    frontier = await create_job(server, job, options=rude())
    await frontier.add([Request(url="https://a.test/")])
    page = Response(url="https://a.test/", status=200, body=PAGE)
    fetcher = StaticFetcher({"https://a.test/": page})
    config = WorkerConfig(job=job, fetch=FetchOptions(obey_robots=False))
    async with open_worker(frontier, spider_of(job), config, fetcher=fetcher) as worker:
        assert worker.attempts.parts.fetcher is fetcher
        await worker.run()
    assert fetcher.proxies == [None]


async def test_a_session_is_made_with_a_route_and_any_worker_continues_it_there(
    server, server_url, job, town, monkeypatch
):
    proxies = [await town.add(name, credentials="me:word") for name in ("one", "two")]
    page = reply(PAGE, "content-type: text/html", "set-cookie: visit=1; Path=/")
    town.site.pages = Everything(page)
    frontier = await create_job(server, job, options=rude())
    way = {"user": "me", "secret": "env:THE_WORD", "template": "{user}[-s-{session}]"}
    routes = tuple(town.route(name, **way) for name in ("one", "two"))
    config = WorkerConfig(
        job=job,
        fetch=FetchOptions(obey_robots=False),
        workers=Workers(concurrency=1),
        proxies=routes,
    )
    monkeypatch.setenv("THE_WORD", "word")
    for first in (0, 20):  # the first requests have no session yet
        before = [len(proxy.users) for proxy in proxies]
        await frontier.add([Request(url=town.url(path=f"/{first + n}")) for n in range(10)])
        await work(server_url, job, config)
    later = [proxy.users[count:] for proxy, count in zip(proxies, before, strict=True)]
    assert sorted(map(len, later)) == [0, 10]
    [name] = {user for users in later for user in users}
    assert name.startswith("me-s-")
