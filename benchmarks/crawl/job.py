"""A job on the ground's server, one worker process that crawls it all, a generated site."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from benchmarks.contest import Figure
from benchmarks.ground import RUDE
from benchmarks.peers import CONCURRENT
from benchmarks.processes import module_words, run_to_end, started
from benchmarks.synthetic import SyntheticTask
from benchmarks.worker import Worked, WorkerTask
from skitter.frontier.jobs import create_job
from skitter.model import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier
    from skitter.settings import JobOptions

JOB = "titles"
RATE = Figure("pages/s")


async def begin(ground: Ground, seed: str, options: JobOptions = RUDE) -> Frontier:
    """A fresh job with one seed."""
    frontier = await create_job(ground.server, JOB, options=options)
    await frontier.add([Request(url=seed)])
    return frontier


def worker_words(
    ground: Ground,
    seed: str,
    *,
    concurrency: int,
    nice: int = 0,
    handler: str = "titles",
    archive: str = "",
) -> list[str]:
    """The command line of a worker process."""
    task = WorkerTask(
        redis_url=f"unix://{ground.socket}",
        job=JOB,
        seed=seed,
        concurrency=concurrency,
        nice=nice,
        ca_file=ca_of(ground, seed),
        handler=handler,
        archive=archive,
    )
    return module_words("worker", task)


def ca_of(ground: Ground, seed: str) -> str:
    return str(ground.site.ca_file) if ground.site and seed.startswith("https:") else ""


async def crawl_all(
    ground: Ground,
    seed: str,
    *,
    pages: int,
    limit_s: float,
    before: list[str] | None = None,
    archive: str = "",
) -> Worked:
    """Crawl a whole site with one worker process; `before` is prepended to its command line."""
    frontier = await begin(ground, seed)
    own = worker_words(ground, seed, concurrency=CONCURRENT, archive=archive)
    words = [*(before or []), *own]
    figures = await run_to_end(words, name="the worker", limit_s=limit_s)
    await check_all(frontier, pages)
    return msgspec.convert(figures, Worked)


async def check_all(frontier: Frontier, pages: int) -> None:
    """Reject a crawl that missed a page or a title."""
    stats = await frontier.stats()
    if (stats.done, stats.items, stats.dead) != (pages, pages, 0):
        raise AssertionError(
            f"{stats.done:,} of {pages:,} pages done, {stats.items:,} titles, {stats.dead:,} dead"
        )


@asynccontextmanager
async def synthetic_site(
    pages: int, *, latency_s: float = 0.0, nice: int = 0, twice: bool = False
) -> AsyncIterator[str]:
    """The URL of the first page of a generated site; its server ends with the block."""
    task = SyntheticTask(pages=pages, latency_s=latency_s, nice=nice, twice=twice)
    async with started(module_words("synthetic", task)) as process:
        assert process.stdout is not None
        origin = (await process.stdout.readline()).decode().strip()
        yield f"{origin}/p/0.html"
