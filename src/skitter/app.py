"""The composition root: settings become opened objects. Lifetimes are `async with` blocks."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from skitter.engine.memory import RequestMemory
from skitter.errors import BadOption, ServerStopped, ServerUnreachable
from skitter.fetch.client import HttpFetcher
from skitter.fetch.guard import Guard
from skitter.frontier.admin.jobs import create_job
from skitter.frontier.connection import Server, connect
from skitter.settings import JobOptions, Layout, Settings, check_job_name
from skitter.settings.fetch import FetchOptions
from skitter.valkey import Progress, hold, revive
from skitter.worker.attempt import Attempts
from skitter.worker.delivery import Delivery
from skitter.worker.departures import Departures
from skitter.worker.loop import Worker, WorkerOptions
from skitter.worker.pulse import Logbook
from skitter.worker.robots import RobotsBook
from skitter.worker.verdict import Policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from skitter.frontier.frontier import Frontier
    from skitter.spider.spider import Spider
    from skitter.valkey import EmbeddedServer

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
    where = Settings.from_environment(redis_url=redis, directory=directory)
    async with open_server(where) as server:
        yield await create_job(server, job, options=options, layout=layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How a worker behaves towards the web, as far as politeness per host does not say it."""

    obey_robots: bool = True
    allowed_hosts: frozenset[str] = frozenset()  # private addresses that may be fetched
    fetch: FetchOptions = field(default_factory=FetchOptions)


@asynccontextmanager
async def open_worker(
    frontier: Frontier, spider: Spider, *, manners: Manners, options: WorkerOptions
) -> AsyncIterator[Worker]:
    """A worker with its client; `await worker.run()` works until the crawl has finished."""
    seeds = [seed.url for seed in spider.known_seeds]
    guard = Guard.for_seeds(seeds, also=manners.allowed_hosts)
    async with HttpFetcher(manners.fetch, guard=guard) as fetcher:
        memory = RequestMemory(lambda: frontier.epoch, lambda: frontier.keeps_depths)
        logbook = Logbook()
        robots = RobotsBook(frontier, fetcher, guard, manners.fetch.user_agent)
        obeyed = robots if manners.obey_robots else None
        policy = Policy(accept=spider.accept)
        departures = Departures(frontier)
        attempts = Attempts(
            spider=spider,
            fetcher=fetcher,
            robots=obeyed,
            memory=memory,
            log=logbook,
            policy=policy,
            limits=lambda: frontier.options.limits,
            departures=departures,
        )
        delivery = Delivery(frontier, memory, logbook, departures)
        yield Worker(frontier, attempts, delivery, logbook, options)
