"""scale: how many times the pages of one worker do four of them fetch from servers far away."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from benchmarks.crawl.field import begin, synthetic_site, worker_words
from benchmarks.crawl.processes import started
from benchmarks.report import Finding
from skitter.errors import InfrastructureError
from skitter.frontier.admin.workers import heartbeats

if TYPE_CHECKING:
    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier

WORKERS = (1, 4)
CONCURRENT = 32
LATENCY_S = 0.2
LEAST_RATIO = 3.5
PAGES = 1_000_000  # more than can be fetched: it is the clock that ends it
START_S = 60.0
#: After all have said that they are there, and there is work for all.
WARM_UP_S = 2.0


async def measure_scale(ground: Ground, *, seconds: float, rounds: int) -> list[Finding]:
    """Turn by turn, each on a job of its own."""
    rates: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    async with synthetic_site(PAGES, latency_s=LATENCY_S) as seed:
        for number in range(1, rounds + 1):
            for workers in WORKERS:
                ground.tell(f"scale: round {number} of {rounds}, {workers} x {CONCURRENT}")
                rates[workers].append(await pages_per_second(ground, seed, workers, seconds))
    await ground.clear()
    return [_finding(rates)]


async def pages_per_second(ground: Ground, seed: str, workers: int, seconds: float) -> float:
    """What so many workers do together, once all of them are at work."""
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


def _finding(rates: dict[int, list[float]]) -> Finding:
    few, many = (rates[workers] for workers in WORKERS)
    ratio = max(many) / max(few)
    return Finding(
        name="scale",
        what=f"{WORKERS[-1]} workers x {CONCURRENT} concurrent, every answer "
        f"{LATENCY_S * 1000:.0f} ms late, best of {len(many)}",
        unit="pages/s",
        measured=max(many),
        beside="one worker",
        peer=max(few),
        ratio=ratio,
        goal=f"{LEAST_RATIO} times one worker",
        ok=ratio >= LEAST_RATIO,
        rounds=many,
        peer_rounds=few,
    )
