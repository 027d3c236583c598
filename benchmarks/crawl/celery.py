"""celery: the frontier on Celery workers, compared with one task per URL on as many of them."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from benchmarks.contest import Contender, Part, Row, take_turns, times
from benchmarks.crawl.job import JOB, RATE, begin, check_all
from benchmarks.crawl.speed import make_rivals
from benchmarks.peers import CELERY_PLAIN, CELERY_TUNED, PROCESSES, Peer
from benchmarks.processes import ROOT, end
from skitter.errors import InfrastructureError
from skitter.settings import FetchOptions, Settings, WorkerConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.contest import Sample
    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier

SPIDER = "benchmarks.titles"
SECRET = secrets.token_hex(32)
START_S, LIMIT_S = 120.0, 120.0


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
        ours = Contender("pumps", partial(self._crawl, ground, ground.publish(self.pages)))
        peers = make_rivals(ground, self.peers, pages=self.peer_pages, rounds=self.peer_rounds)
        await take_turns(ground, [ours, *peers], part=self.name, rounds=self.rounds)
        alone = Row(
            what=f"the Celery engine, {PROCESSES} processes, {self.pages:,} pages, "
            f"best of {self.rounds}",
            figure=RATE,
            ours=ours,
        )
        return [
            replace(
                alone,
                theirs=theirs,
                beside=f"{peer.title}, {self.peer_pages:,} pages",
                goal=times(peer.least_ratio),
            )
            for peer, theirs in zip(self.peers, peers, strict=True)
        ] or [alone]

    async def _crawl(self, ground: Ground, seed: str) -> Sample:
        return {RATE: [await pages_per_second(ground, seed, self.pages)]}


async def pages_per_second(ground: Ground, seed: str, pages: int) -> float:
    """Crawl a whole site by pumps, timed from the first message to the last completed page."""
    frontier = await begin(ground, seed)
    async with _celery_worker(ground):
        began = time.perf_counter()
        await _send_pumps(ground, frontier, seed)
        async with asyncio.timeout(LIMIT_S):
            await _until_done(frontier, pages)
        seconds = time.perf_counter() - began
    await check_all(frontier, pages)
    return pages / seconds


async def _until_done(frontier: Frontier, pages: int) -> None:
    while True:
        if (await frontier.stats()).done >= pages:
            return
        await asyncio.sleep(0.01)


@asynccontextmanager
async def _celery_worker(ground: Ground) -> AsyncIterator[None]:
    """Celery's own command, as users type it."""
    from skitter.celery.scheduling import count_slots

    words = ["-m", "celery", "-A", "skitter.celery", "worker", "-c", str(PROCESSES)]
    words += ["--without-mingle", "--without-gossip", "-l", "ERROR"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=ROOT,
        env=os.environ | {"SKITTER_REDIS_URL": f"unix://{ground.socket}", "SKITTER_SECRET": SECRET},
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
        yield
    finally:
        await end(process, grace_s=30.0)


async def _send_pumps(ground: Ground, frontier: Frontier, seed: str) -> None:
    from skitter.celery import CelerySettings, make_app
    from skitter.celery.jobs import JobSpec, register_job
    from skitter.celery.runtime import runtime_of
    from skitter.celery.scheduling import send_pumps

    where = Settings(redis_url=f"unix://{ground.socket}")
    app = make_app(CelerySettings(where=where, secret=SECRET))
    config = WorkerConfig(fetch=FetchOptions(allow_hosts=(urlsplit(seed).netloc,)))
    spec = runtime_of(app).sign(JobSpec(job=JOB, target=SPIDER, pumps=PROCESSES, config=config))
    await register_job(ground.server, spec)
    await send_pumps(runtime_of(app), frontier, spec, await frontier.stats())
    app.close()
