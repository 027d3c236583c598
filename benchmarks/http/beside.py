"""A running crawl, the server alongside it, and what its process uses."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.clients import Answered, ClientsTask
from benchmarks.crawl.job import begin, synthetic_site, worker_words
from benchmarks.processes import module_words, run_to_end, started
from skitter.cli.tuning import NICE
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier

PAGES = 100_000_000  # more than can be fetched
CONCURRENT = 64


@asynccontextmanager
async def crawling(ground: Ground) -> AsyncIterator[None]:
    """One worker at full speed, with the priority it has beside a dashboard. The site, which would
    be on another machine, gets a low priority too."""
    async with synthetic_site(PAGES, nice=NICE) as seed:
        frontier = await begin(ground, seed)
        words = worker_words(ground, seed, concurrency=CONCURRENT, nice=NICE)
        async with started(words):
            await _until_moving(frontier)
            yield


async def _until_moving(frontier: Frontier) -> None:
    while True:
        if (await frontier.stats()).done >= CONCURRENT:
            return
        await asyncio.sleep(0.05)


@asynccontextmanager
async def serving(words: Sequence[str], ground: Ground) -> AsyncIterator[tuple[int, int]]:
    """A server whose first line says where it listens: its process and its port."""
    environment = os.environ | {"XDG_STATE_HOME": str(ground.directory)}
    async with started(words, env=environment) as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            raise InfrastructureError(f"the server did not start: {line or 'see above'}")
        yield process.pid, int(found[1])


def our_words(ground: Ground) -> list[str]:
    words = [sys.executable, "-P", "-m", "skitter", "serve", "--port", "0"]
    return [*words, "--redis", f"unix://{ground.socket}"]


async def run_clients(task: ClientsTask) -> Answered:
    words = module_words("clients", task)
    figures = await run_to_end(words, name="the clients", limit_s=task.seconds + 60)
    return msgspec.convert(figures, Answered)


def cpu_s(pid: int) -> float:
    """The CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
