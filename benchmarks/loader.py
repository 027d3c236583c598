"""A loader as a process: python -m benchmarks.loader '{"redis_url": ...}'

The real thing: `Loader` on a job's stream. It ends when this many items are stored, and prints what
that took.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import uvloop

from benchmarks.processes import CpuTime, say
from skitter.crawl.job_loader import Loader
from skitter.crawl.outputs import open_destination
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import connect
from skitter.observe.metrics import Recorder
from skitter.sinks import Destination


class LoaderTask(msgspec.Struct, frozen=True, kw_only=True):
    """All items of a job, to one destination."""

    redis_url: str
    job: str
    to: str
    directory: str
    items: int


class LoaderFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What it took, from the first read of the stream."""

    items: int
    seconds: float
    cpu_s: float


@dataclass(slots=True)
class Countdown(Recorder):
    """Stops the loader when all are stored."""

    left: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, name: str, by: int = 1) -> None:
        self.left -= by if name == "stored" else 0
        if self.left <= 0:
            self.stop.set()


async def load(task: LoaderTask) -> LoaderFigures:
    async with connect(task.redis_url) as server:
        frontier = await open_job(server, task.job)
        figures = Countdown(left=task.items)
        loader = Loader(frontier, "loader", _tell, figures.stop, figures=figures)
        to = Destination(task.to, task.job, Path(task.directory))
        started, before = time.perf_counter(), CpuTime.now()
        await loader.run(partial(open_destination, frontier, to))
        used = CpuTime.now()
    return LoaderFigures(
        items=task.items - figures.left,
        seconds=time.perf_counter() - started,
        cpu_s=used.all_s - before.all_s,
    )


def _tell(level: str, text: str) -> None:
    if level != "info":
        sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    task = msgspec.json.decode(sys.argv[1], type=LoaderTask)
    say(uvloop.run(load(task)))
