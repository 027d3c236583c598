"""A bare loop as a process: same client, parser and join; a set and a queue instead of a frontier.

python -m benchmarks.bare '{"seed": ...}'. It keeps nothing when it ends and has no politeness,
robots.txt, scope or retries: what is left is the cost of fetching and parsing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from dataclasses import dataclass, field

import msgspec
import uvloop
from selectolax.lexbor import LexborHTMLParser

from benchmarks.processes import CpuTime, fetch_options, say
from skitter.fetch.http.fetcher import Fetcher, HttpFetcher
from skitter.fetch.http.guard import Guard
from skitter.model import Request
from skitter.urls import join


class BareTask(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl without a frontier."""

    seed: str
    concurrency: int
    ca_file: str = ""


class BareFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What it took."""

    pages: int
    seconds: float
    cpu_s: float
    main_thread_cpu_s: float  # the rest is wreq's threads


@dataclass(slots=True)
class Loop:
    """N tasks and a queue."""

    todo: deque[str]
    seen: set[str]
    titles: list[str] = field(default_factory=list)
    active: int = 0

    async def work(self, fetcher: Fetcher) -> None:
        while self.todo or self.active:
            if not self.todo:
                await asyncio.sleep(0.001)
                continue
            url = self.todo.popleft()
            self.active += 1
            self._take(url, (await fetcher.fetch(Request(url=url))).body)
            self.active -= 1

    def _take(self, url: str, body: bytes) -> None:
        tree = LexborHTMLParser(body.decode())
        title = tree.css_first("title")
        self.titles.append(title.text() if title else "")
        for node in tree.css("a[href]"):
            link = join(url, node.attributes["href"] or "")
            if link and link not in self.seen:
                self.seen.add(link)
                self.todo.append(link)


async def crawl(task: BareTask) -> BareFigures:
    loop = Loop(deque([task.seed]), {task.seed})
    options = fetch_options(task.ca_file)
    async with HttpFetcher(options, guard=Guard.for_seeds([task.seed])) as fetcher:
        started, before = time.perf_counter(), CpuTime.now()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(task.concurrency):
                tasks.create_task(loop.work(fetcher))
        used = CpuTime.now()
        return BareFigures(
            pages=len(loop.titles),
            seconds=time.perf_counter() - started,
            cpu_s=used.all_s - before.all_s,
            main_thread_cpu_s=used.main_s - before.main_s,
        )


if __name__ == "__main__":
    task = msgspec.json.decode(sys.argv[1], type=BareTask)
    say(uvloop.run(crawl(task)))
