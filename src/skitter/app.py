"""The composition root: settings become opened objects. Lifetimes are `async with` blocks."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from skitter.errors import BadOption, JobMissing, ServerStopped, ServerUnreachable
from skitter.frontier.admin.control import operator_options, release_options, replaced
from skitter.frontier.admin.jobs import create_job, open_job
from skitter.frontier.connection import Server, connect
from skitter.settings import JOB_OPTIONS, JobOptions, Layout, Option, check_job_name, find_server
from skitter.valkey import Progress, hold, revive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from skitter.fetch.browser import BrowserRenderer
    from skitter.fetch.client import Fetcher
    from skitter.fetch.guard import Guard
    from skitter.fetch.render import Renderer
    from skitter.fetch.resolver import Resolver
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lane
    from skitter.settings import Config, SessionPool, Settings, WorkerConfig
    from skitter.spider.spider import Spider
    from skitter.valkey import EmbeddedServer
    from skitter.worker.loop import Worker, WorkerOptions
    from skitter.worker.verdict import Policy

#: Results that may wait for a loader, unless it is configured: the server is not filled up.
MAX_ITEMS = 50_000
#: How long a server that somebody has just killed is waited for.
DYING_S = 10.0


@asynccontextmanager
async def open_server(
    settings: Settings, *, progress: Progress | None = None
) -> AsyncIterator[Server]:
    """The server that the settings name, or the embedded one, started if nobody has."""
    async with AsyncExitStack() as stack:
        url = settings.redis_url
        if url is None:
            # Entered and left in a thread: a large append-only file takes its time to load.
            held = hold(settings.directory, progress=progress)
            embedded = await asyncio.to_thread(held.__enter__)
            stack.push_async_callback(asyncio.to_thread, held.__exit__, None, None, None)
            yield await _join(embedded, stack, progress)
        else:
            yield await stack.enter_async_context(connect(url))


async def _join(
    embedded: EmbeddedServer, stack: AsyncExitStack, progress: Progress | None
) -> Server:
    """It answered a moment ago. If it was dying even then, start it again."""
    give_up_at = time.monotonic() + DYING_S
    link = partial(connect, embedded.url, password=embedded.password)
    while True:
        try:
            server = await stack.enter_async_context(link())
        except ServerUnreachable:
            if time.monotonic() > give_up_at:
                raise
            if progress:
                progress("the embedded server has just gone: starting it again")
            await _revive(embedded.directory)
            continue
        server.on_away = partial(_revive, embedded.directory)
        server.directory = embedded.directory
        return server


async def _revive(directory: Path) -> None:
    """Start the server again if it died. One that somebody stopped stays down: say so."""
    if not await asyncio.to_thread(revive, directory):
        raise ServerStopped(directory)


@asynccontextmanager
async def open_frontier(
    job: str,
    *,
    redis: str | None = None,
    options: JobOptions | None = None,
    layout: Layout | None = None,
    directory: Path | None = None,
) -> AsyncIterator[Frontier]:
    """A job in your own event loop; created if need be.

    `redis`: a server's URL; None: SKITTER_REDIS_URL, or the embedded server, which lives in
    `directory` (None: SKITTER_DIR, or .skitter). Options that are given
    are set, also on a job that exists; the layout is fixed when it is created.
    """
    check_job_name(job)
    if not isinstance(options, JobOptions | None):
        raise BadOption("options", options, "a skitter.JobOptions")
    if not isinstance(layout, Layout | None):
        raise BadOption("layout", layout, "a skitter.Layout")
    where = find_server(redis, directory)
    async with open_server(where) as server:
        yield await create_job(server, job, options=options, layout=layout)


@dataclass(frozen=True, slots=True)
class Overruled:
    """An option of a job for which an operator (`skitter set`) and the configuration differ."""

    option: Option
    set_by_operator: float | None
    configured: float | None
    flag_wins: bool


async def open_crawl(
    server: Server, job: str, spider: Spider, config: Config
) -> tuple[Frontier, list[Overruled]]:
    """The spider's job, made if need be, with the configured options.

    What an operator set on the job wins over those, and a flag over both.
    """
    options, overruled = config.job_options, await _compare(server, job, config)
    kept = {one.option.name: one.set_by_operator for one in overruled if not one.flag_wins}
    options = replaced(options, kept)
    if options.limits.max_items is None and "max_items" not in kept:
        options = replaced(options, {"max_items": MAX_ITEMS})
    frontier = await create_job(
        server, job, options=options, layout=Layout(canonical=spider.canonical)
    )
    await release_options(frontier, [one.option.name for one in overruled if one.flag_wins])
    return frontier, overruled


async def _compare(server: Server, job: str, config: Config) -> list[Overruled]:
    try:
        stored = await operator_options(await open_job(server, job, as_found=True))
    except JobMissing:
        return []
    found = []
    for one in JOB_OPTIONS:
        wanted = getattr(getattr(config, one.table), one.name)
        if one.name in stored and stored[one.name] != wanted:
            found.append(Overruled(one, stored[one.name], wanted, one.key in config.explicit))
    return found


@asynccontextmanager
async def open_worker(
    frontier: Frontier,
    spider: Spider,
    config: WorkerConfig,
    *,
    fetcher: Fetcher | None = None,
    options: WorkerOptions | None = None,
) -> AsyncIterator[Worker]:
    """A worker; `await worker.run()` works until the crawl has finished.

    `fetcher`: what brings pages home in place of the HTTP client, opened by the caller. `options`:
    how this process works, if it is not just as the configuration says.
    """
    # Here, as most of those who open a server fetch nothing from it.
    from skitter.engine.memory import RequestMemory
    from skitter.engine.quality import FoundItems
    from skitter.fetch.client import HttpFetcher
    from skitter.fetch.guard import Guard
    from skitter.fetch.resolver import Resolver
    from skitter.logs import ClusterLog
    from skitter.worker.adaptive import Adaptive
    from skitter.worker.attempt import Attempts
    from skitter.worker.delivery import Delivery
    from skitter.worker.departures import Departures
    from skitter.worker.login import Logins
    from skitter.worker.loop import Worker, WorkerOptions
    from skitter.worker.rendering import BrowserFetcher
    from skitter.worker.revisits import Revisits
    from skitter.worker.robots import RobotsBook
    from skitter.worker.sessions import Sessions
    from skitter.worker.traps import Traps
    from skitter.worker.wishes import Wishes

    seeds = [seed.url for seed in spider.known_seeds]
    guard = Guard.for_seeds(seeds, also=config.fetch.allow_hosts)
    async with AsyncExitStack() as stack:
        resolver, renderer = Resolver(), cast("Renderer | None", None)
        stack.push_async_callback(resolver.close)
        if fetcher is None:
            client = HttpFetcher(config.fetch, guard=guard, resolver=resolver)
            fetcher = await stack.enter_async_context(client)
            if spider.renders and config.workers.only != "http":
                browser = renderer_of(config, guard, resolver)
                renderer = await stack.enter_async_context(browser)
        logbook = ClusterLog()
        if config.proxies:
            from skitter.worker.routed import RoutedRenderer, open_routed

            fetcher = routed = await stack.enter_async_context(
                open_routed(fetcher, frontier, config, guard=guard, log=logbook)
            )
            renderer = RoutedRenderer(routed, renderer) if renderer else None
        memory = RequestMemory(lambda: frontier.epoch, lambda: frontier.keeps_depths)
        robots = RobotsBook(frontier, fetcher, guard, config.fetch.user_agent, logbook)
        departures = Departures(frontier, resolver)
        policy = policy_of(spider, config)
        sessions = Sessions(frontier, session_pool_of(config), spider.logins)
        attempts = Attempts(
            spider=spider,
            fetcher=BrowserFetcher(spider, fetcher, renderer) if renderer else fetcher,
            robots=robots if config.fetch.obey_robots else None,
            memory=memory,
            log=logbook,
            policy=policy,
            limits=lambda: frontier.options.limits,
            departures=departures,
            wishes=Wishes.of(config.fetch),
            sessions=sessions,
            logins=Logins(spider, fetcher, sessions, policy),
            traps=Traps(frontier, item_per_page=spider.item_per_page),
            passes_on=config.workers.only == "http",
            adaptive=Adaptive(spider, frontier) if spider.is_adaptive else None,
            revisits=Revisits(frontier),
        )
        found = FoundItems(spider.default or "")
        delivery = Delivery(frontier, memory, logbook, departures, quality=found)
        options = replace(options or WorkerOptions.of(config), lanes=lanes_of(spider, config))
        with logbook.attached():
            yield Worker(frontier, attempts, delivery, logbook, options)


def renderer_of(
    config: WorkerConfig, guard: Guard, resolver: Resolver | None = None
) -> BrowserRenderer:
    """The browser, which starts with its first page. Raises BrowserMissing."""
    from skitter.fetch.browser import BrowserRenderer
    from skitter.fetch.chromium import check_browser

    check_browser(config.browser)
    return BrowserRenderer(config.browser, fetch=config.fetch, guard=guard, resolver=resolver)


def session_pool_of(config: WorkerConfig) -> SessionPool:
    """Who sets a Cookie header for every request keeps the cookies himself."""
    has_own = any(name.lower() == "cookie" for name in config.fetch.headers)
    return replace(config.sessions, cookies=False) if has_own else config.sessions


def lanes_of(spider: Spider, config: WorkerConfig) -> dict[Lane, int]:
    """How many pages of each lane a worker has under way; none: plain HTTP alone."""
    most: dict[Lane, int] = {"": config.workers.concurrency, "browser": config.browser.concurrency}
    if config.workers.only == "browser":
        return {"browser": most["browser"]}
    if spider.renders.keys() >= spider.handlers.keys() and not spider.is_adaptive:
        most[""] = most["browser"]  # what was pushed without a lane is rendered, too
    return most if spider.renders and config.workers.only is None else {}


def policy_of(spider: Spider, config: WorkerConfig) -> Policy:
    """When to give a page up, and how long to leave a host alone."""
    from skitter.worker.verdict import Policy

    return Policy(
        max_redirects=config.fetch.max_redirects,
        longest_rest_s=config.fetch.max_retry_after_s,
        handler_tries=config.workers.handler_tries,
        blocked_rest_s=config.fetch.blocked_rest_s,
        has_routes=len(config.proxies) > 1,
        accept=spider.accept,
    )
