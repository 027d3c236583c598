"""celery: the frontier on Celery workers, compared with one task per URL on as many of them."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from benchmarks.contest import Contender, Figure, Part, Row, take_turns, times
from benchmarks.crawl.job import JOB, RATE, begin, check_all, worker_words
from benchmarks.crawl.speed import make_rivals
from benchmarks.peers import CELERY_PLAIN, CELERY_TUNED, CONCURRENT, PROCESSES, Peer
from benchmarks.processes import ROOT, end, started
from skitter.errors import InfrastructureError
from skitter.frontier.control import set_state
from skitter.frontier.workers import heartbeats
from skitter.model import State
from skitter.settings import FetchOptions, Settings, WorkerConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from benchmarks.contest import Sample
    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier

SPIDER = "benchmarks.titles"
SECRET = secrets.token_hex(32)
START_S, LIMIT_S = 120.0, 120.0
STEADY = Figure("pages/s", name="from the first page on")


@dataclass(frozen=True, kw_only=True)
class Celery(Part):
    """With as many processes as its rivals."""

    name: ClassVar[str] = "celery"
    pages: int = 5000
    rounds: int = 3
    peer_pages: int = 1000
    peer_rounds: int = 2
    peers: tuple[Peer, ...] = (replace(CELERY_PLAIN, least_ratio=10.0), CELERY_TUNED)

    async def measure(self, ground: Ground) -> list[Row]:
        seed = ground.publish(self.pages)
        ours = Contender("pumps", partial(self._crawl, ground, seed))
        workers = Contender("our workers", partial(_crawl_by_workers, ground, seed, self.pages))
        peers = make_rivals(ground, self.peers, pages=self.peer_pages, rounds=self.peer_rounds)
        await take_turns(ground, [ours, workers, *peers], part=self.name, rounds=self.rounds)
        alone = Row(
            what=f"the Celery engine, {PROCESSES} processes, {self.pages:,} pages, "
            f"best of {self.rounds}",
            figure=RATE,
            ours=ours,
        )
        beside = f"{PROCESSES} worker processes of our own, from the first page on"
        own = replace(alone, figure=STEADY, theirs=workers, beside=beside, goal=times(0.8))
        return [
            replace(own, what=f"{alone.what}, from the first page on"),
            *(
                replace(
                    alone,
                    theirs=theirs,
                    beside=f"{peer.title}, {self.peer_pages:,} pages",
                    goal=times(peer.least_ratio),
                )
                for peer, theirs in zip(self.peers, peers, strict=True)
            ),
        ]

    async def _crawl(self, ground: Ground, seed: str) -> Sample:
        return await crawl_by_pumps(ground, seed, self.pages)


async def crawl_by_pumps(ground: Ground, seed: str, pages: int) -> Sample:
    """Crawl a whole site, timed from the first message, and from the first page."""
    frontier = await begin(ground, seed)
    async with celery_worker(ground):
        began = time.perf_counter()
        await _send_pumps(ground, frontier, seed)
        steady = await _steady(frontier, pages)
        seconds = time.perf_counter() - began
    await check_all(frontier, pages)
    return {RATE: [pages / seconds], STEADY: [steady]}


async def _crawl_by_workers(ground: Ground, seed: str, pages: int) -> Sample:
    """As many workers of our own, which are all at work before the first page is."""
    frontier = await begin(ground, seed)
    await set_state(frontier, State.PAUSED)
    words = worker_words(ground, seed, concurrency=CONCURRENT)
    async with AsyncExitStack() as stack:
        for _ in range(PROCESSES):
            await stack.enter_async_context(started(words))
        async with asyncio.timeout(START_S):
            while len(await heartbeats(frontier)) < PROCESSES:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await set_state(frontier, State.RUNNING)
        steady = await _steady(frontier, pages)
    await check_all(frontier, pages)
    return {STEADY: [steady]}


async def _steady(frontier: Frontier, pages: int) -> float:
    """Pages per second between the first and the last."""
    async with asyncio.timeout(LIMIT_S):
        await until_done(frontier, 1)
        first, began = (await frontier.stats()).done, time.perf_counter()
        await until_done(frontier, pages)
        return (pages - first) / (time.perf_counter() - began)


async def until_done(frontier: Frontier, pages: int) -> None:
    while True:
        if (await frontier.stats()).done >= pages:
            return
        await asyncio.sleep(0.01)


@asynccontextmanager
async def celery_worker(ground: Ground, **environment: str) -> AsyncIterator[int]:
    """Celery's own command, as users type it. Its pid."""
    from skitter.celery.scheduling import count_slots

    words = ["-m", "celery", "-A", "skitter.celery", "worker", "-c", str(PROCESSES)]
    words += ["--without-mingle", "--without-gossip", "-l", "ERROR"]
    environment |= {"SKITTER_REDIS_URL": f"unix://{ground.socket}", "SKITTER_SECRET": SECRET}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=ROOT,
        env=os.environ | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_S
        while not await count_slots(ground.server):
            if process.returncode is not None or time.monotonic() > deadline:
                raise InfrastructureError("the Celery worker did not start.")
            await asyncio.sleep(0.05)
        yield process.pid
    finally:
        await end(process, grace_s=30.0)


@contextmanager
def our_app(ground: Ground) -> Iterator[Any]:
    """The app of a caller."""
    from skitter.celery import CelerySettings, make_app
    from skitter.celery.runtime import runtime_of

    where = Settings(redis_url=f"unix://{ground.socket}")
    app = make_app(CelerySettings(where=where, secret=SECRET))
    try:
        yield app
    finally:
        runtime_of(app).close()
        app.close()


async def _send_pumps(ground: Ground, frontier: Frontier, seed: str) -> None:
    from skitter.celery.jobs import JobSpec, register_job
    from skitter.celery.runtime import runtime_of
    from skitter.celery.scheduling import send_pumps

    config = WorkerConfig(fetch=FetchOptions(allow_hosts=(urlsplit(seed).netloc,)))
    with our_app(ground) as app:
        spec = JobSpec(job=JOB, target=SPIDER, pumps=PROCESSES, config=config)
        spec = runtime_of(app).sign(spec)
        await register_job(ground.server, spec)
        await send_pumps(runtime_of(app), frontier, spec, await frontier.stats())
