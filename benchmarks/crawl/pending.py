"""pending: the size of a worker while very many URLs wait, each of which it has found twice."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import msgspec

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.crawl.job import begin, synthetic_site, worker_words
from benchmarks.peers import CONCURRENT
from benchmarks.processes import end, started
from benchmarks.worker import Worked
from skitter.errors import InfrastructureError

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

PEAK, PAGES = Figure("MB"), Figure("pages")
LIMIT_S = 1800.0
LOOK_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Pending(Part):
    """Each page has ten links, five of them new; so a million wait after 250,000 pages."""

    name: ClassVar[str] = "pending"
    urls: int = 1_000_000

    async def measure(self, ground: Ground) -> list[Row]:
        async def crawl() -> Sample:
            worked = await crawl_until(ground, seed, self.urls)
            return {PEAK: [worked.peak_mb], PAGES: [worked.pages]}

        worker = Contender(f"one worker, until {self.urls:,} URLs wait", crawl)
        async with synthetic_site(100 * self.urls, twice=True) as seed:
            await take_turns(ground, [worker], part=self.name, rounds=1)
        return [
            Row(
                what=f"RSS of a worker at its largest, {self.urls:,} URLs wait, each found twice",
                figure=PEAK,
                ours=worker,
                beside=f"after {worker.best(PAGES):,.0f} pages of 10 links",
                goal=Goal("at most 120", most=120.0, of="measured"),
            )
        ]


async def crawl_until(ground: Ground, seed: str, pending: int) -> Worked:
    """Stop a worker once this many URLs wait, and return its figures."""
    frontier = await begin(ground, seed)
    async with started(worker_words(ground, seed, concurrency=CONCURRENT)) as process:
        deadline = time.monotonic() + LIMIT_S
        while (stats := await frontier.stats()).pending < pending:
            if process.returncode is not None or time.monotonic() > deadline:
                raise InfrastructureError(f"{stats.pending:,} of {pending:,} URLs wait: see above.")
            await asyncio.sleep(LOOK_S)
        await end(process)
        assert process.stdout is not None
        return msgspec.json.decode(await process.stdout.read(), type=Worked)
