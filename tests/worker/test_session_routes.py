"""A session stays on its route; when both are refused, a new session takes another way."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack

from proxies import Proxy, open_proxy
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.fetch import FetchOptions, HttpFetcher
from skitter.fetch.http.guard import Resolver
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import create_job
from skitter.model import Request
from skitter.settings import JobOptions, Politeness, Retries, WorkerConfig
from skitter.settings.proxy import make_route
from skitter.spider import Spider
from web import Answer, Asked, serve_web

OPTIONS = JobOptions(
    politeness=Politeness(delay_s=0, max_in_flight=1, max_delay_s=0.01),
    retries=Retries(base_s=0.01),
)


async def nothing_resolves(name: str) -> tuple[str, ...]:
    raise socket.gaierror(name)


async def crawl(
    frontier: Frontier, spider: Spider, proxies: dict[str, Proxy], *, host: str, port: int
) -> None:
    """By proxies that alone know where the host is."""
    async with AsyncExitStack() as stack:
        routes = []
        for name, proxy in proxies.items():
            proxy.names[host] = ("127.0.0.1", port)
            await stack.enter_async_context(open_proxy(proxy))
            routes.append(make_route({"name": f"{name}-{frontier.job}", "url": proxy.url()}))
        fetch = FetchOptions(obey_robots=False)
        config = WorkerConfig(job=frontier.job, fetch=fetch, proxies=tuple(routes))
        resolver = Resolver(lookup=nothing_resolves)
        fetcher = await stack.enter_async_context(HttpFetcher(fetch, resolver=resolver))
        how = WorkerOptions.of(config, watch_signals=False)
        async with open_worker(frontier, spider, config, fetcher=fetcher, options=how) as worker:
            await worker.run()


async def test_a_session_stays_on_its_route_until_it_is_refused(server, job):
    host, made = f"shop-{job}.example", iter(range(1, 100))
    proxies = {name: Proxy() for name in ("one", "two", "three")}

    def shop(asked: Asked) -> Answer:
        if asked.cookies:
            return Answer()
        return Answer(headers=(("set-cookie", f"id={next(made)}; Path=/"),))

    frontier = await create_job(server, job, options=OPTIONS)
    spider = Spider(job, [])

    @spider.page
    def page(page):
        if len(web.asked) == 20:  # from here on, the site refuses the route that was used
            [used] = [one for one in proxies.values() if one.asked[host] > 15]
            used.banned_by.add(host)

    async with serve_web(shop) as web:
        await frontier.add([Request(url=f"http://{host}/{n}") for n in range(40)])
        await crawl(frontier, spider, proxies, host=host, port=web.port)

    ids = [one.cookies.get("id") for one in web.asked]
    first = ids[19]
    assert ids[2:20] == [first] * 18  # one session, on one route
    assert first not in ids[20:]  # what was refused three times, nobody uses again
    assert (await frontier.stats()).done >= 35


async def test_a_log_in_takes_the_route_of_its_session(server, job):
    def shop(asked: Asked) -> Answer:
        if asked.path == "/enter":
            return Answer(headers=(("set-cookie", "sid=1; Path=/"),))
        return Answer("<form action=/enter>" if asked.path == "/login" else "inside")

    proxies = {name: Proxy() for name in ("one", "two", "three")}
    frontier = await create_job(server, job, options=OPTIONS)
    async with serve_web(shop) as web:
        spider = Spider(job, start=[web.url(f"/{n}") for n in range(4)])

        @spider.login(web.url("/login"))
        def login(page):
            for n in range(8):  # none of them goes by a route of its own
                yield page.follow(f"/step{n}")
            yield page.form().submit()

        @spider.page
        def page(page): ...

        await frontier.add([seed async for seed in spider.seeds()])
        await crawl(frontier, spider, proxies, host="shop.test", port=web.port)

    assert web.paths().count("/enter?") == 1
    assert sorted(one.asked["shop.test"] for one in proxies.values()) == [0, 0, 14]
