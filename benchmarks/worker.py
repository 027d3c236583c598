"""One worker as a process: python -m benchmarks.worker '{"redis_url": ...}'

The real thing: `open_worker` on an existing job, obeying robots.txt, with items going to the
stream. It ends when the crawl is over or on SIGTERM, and prints what it did.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from benchmarks.processes import CpuTime, fetch_options, say
from skitter.cli.tuning import tune_collector
from skitter.engine.assembly import open_worker
from skitter.engine.parts import WorkerOptions
from skitter.engine.pulse import memory_mb, rss_mb
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import connect
from skitter.settings import ArchiveOptions, WorkerConfig
from skitter.spider import Scope, Spider
from skitter.spider.default import crawl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.engine.delivery import Tally
    from skitter.spider.page import Page

LOOK_S = 0.01


class WorkerTask(msgspec.Struct, frozen=True, kw_only=True):
    """One worker on an existing job."""

    redis_url: str
    job: str
    seed: str
    concurrency: int
    nice: int = 0
    ca_file: str = ""
    handler: str = "titles"
    archive: str = ""  # a folder to keep pages in


class Worked(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker did, and what it cost."""

    pages: int
    errors: int
    seconds: float  # from the first request to the last completed page
    cpu_s: float
    main_thread_cpu_s: float  # the rest is wreq's threads
    rss_mb: float
    peak_mb: float


def make_spider(task: WorkerTask) -> Spider:
    """The one of `skitter crawl`, or one of those below."""
    if task.handler in ("crawl", "raw-text"):
        format = "" if task.handler == "crawl" else task.handler
        return crawl(task.job, [task.seed], format=format)
    spider = Spider(task.job, [task.seed], scope=Scope(files=False))
    spider.page({"titles": titles, "fields": fields}[task.handler])
    return spider


def titles(page: Page) -> Iterator[Any]:
    yield {"title": page.css_first("title").text()}
    yield from page.follow_all()


def fields(page: Page) -> Iterator[Any]:
    """What `skitter crawl` stores, as one would write it."""
    title = page.tree.css_first("title")
    yield {
        "url": page.url,
        "title": title.text() if title else None,
        "text": page.main_text,
        "links": page.links(),
        "status": page.status,
    }
    yield from page.follow_all()


@dataclass(slots=True)
class Stopwatch:
    """Notes when the last page was completed: a worker stays a little to see that it was last."""

    tally: Tally
    started: float
    last: float
    pages: int = 0

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        if self.tally.pages != self.pages:
            self.pages, self.last = self.tally.pages, time.perf_counter()


async def work(task: WorkerTask) -> Worked:
    os.nice(task.nice)
    async with connect(task.redis_url) as server:
        frontier = await open_job(server, task.job)
        options = WorkerOptions(concurrency=task.concurrency, grace_s=1.0)
        spider = make_spider(task)
        archive = ArchiveOptions(keep=bool(task.archive), folder=Path(task.archive or "archive"))
        config = WorkerConfig(fetch=fetch_options(task.ca_file), archive=archive)
        async with open_worker(frontier, spider, config, options=options) as worker:
            tune_collector()  # as `skitter run` does
            now, before = time.perf_counter(), CpuTime.now()
            watch = Stopwatch(worker.delivery.tally, now, now)
            watching = asyncio.create_task(watch.run())
            await worker.run()
            watching.cancel()
            watch.look()
            used = CpuTime.now()
            return Worked(
                pages=worker.delivery.tally.pages,
                errors=worker.delivery.tally.errors,
                seconds=watch.last - watch.started,
                cpu_s=used.all_s - before.all_s,
                main_thread_cpu_s=used.main_s - before.main_s,
                rss_mb=rss_mb(),
                peak_mb=memory_mb(),
            )


if __name__ == "__main__":
    task = msgspec.json.decode(sys.argv[1], type=WorkerTask)
    say(uvloop.run(work(task)))
