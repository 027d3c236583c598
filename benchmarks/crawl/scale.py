"""scale: how many times the pages of one worker four workers fetch from distant servers."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Goal, Part, Row, take_turns
from benchmarks.crawl.job import RATE, begin, synthetic_site, worker_words
from benchmarks.processes import started
from skitter.errors import InfrastructureError
from skitter.frontier.workers import heartbeats

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier

WORKERS = (1, 4)
CONCURRENT = 32
LATENCY_S = 0.2
PAGES = 1_000_000  # more than can be fetched: time ends it
START_S = 60.0
#: After all have reported, and there is work for all.
WARM_UP_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Scale(Part):
    """Each number of workers on its own job; time ends it."""

    name: ClassVar[str] = "scale"
    seconds: float = 8.0
    rounds: int = 2

    async def measure(self, ground: Ground) -> list[Row]:
        async def crawl(workers: int) -> Sample:
            return {RATE: [await pages_per_second(ground, seed, workers, self.seconds)]}

        one, many = (Contender(f"{n} x {CONCURRENT}", partial(crawl, n)) for n in WORKERS)
        async with synthetic_site(PAGES, latency_s=LATENCY_S) as seed:
            await take_turns(ground, [one, many], part=self.name, rounds=self.rounds)
        return [
            Row(
                what=f"{WORKERS[-1]} workers x {CONCURRENT} concurrent, every answer "
                f"{LATENCY_S * 1000:.0f} ms late, best of {self.rounds}",
                figure=RATE,
                ours=many,
                theirs=one,
                beside="one worker",
                goal=Goal("3.5 times one worker", least=3.5),
            )
        ]


async def pages_per_second(ground: Ground, seed: str, workers: int, seconds: float) -> float:
    """The combined rate of this many workers, once all of them are working."""
    frontier = await begin(ground, seed)
    words = worker_words(ground, seed, concurrency=CONCURRENT)
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(started(words))
        await _all_at_work(frontier, workers)
        await asyncio.sleep(WARM_UP_S)
        before, began = (await frontier.stats()).done, time.perf_counter()
        await asyncio.sleep(seconds)
        done, ended = (await frontier.stats()).done, time.perf_counter()
    return (done - before) / (ended - began)


async def _all_at_work(frontier: Frontier, workers: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        waiting = (await frontier.stats()).pending
        if waiting >= workers * CONCURRENT and len(await heartbeats(frontier)) == workers:
            return
        await asyncio.sleep(0.05)
    raise InfrastructureError(f"{workers} workers did not start: see above.")
