"""memory: the size of a worker after very many pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.crawl.job import RATE, crawl_all, synthetic_site

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

PEAK, RSS = Figure("MB"), Figure("MB")
LIMIT_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Memory(Part):
    """On a generated site, with links to old and new pages."""

    name: ClassVar[str] = "memory"
    pages: int = 100_000

    async def measure(self, ground: Ground) -> list[Row]:
        async def crawl() -> Sample:
            worked = await crawl_all(ground, seed, pages=self.pages, limit_s=LIMIT_S)
            rate = worked.pages / worked.seconds
            return {PEAK: [worked.peak_mb], RSS: [worked.rss_mb], RATE: [rate]}

        worker = Contender(f"one worker, {self.pages:,} pages", crawl)
        async with synthetic_site(self.pages) as seed:
            await take_turns(ground, [worker], part=self.name, rounds=1)
        return [
            Row(
                what=f"RSS of a worker at its largest, {self.pages:,} pages",
                figure=PEAK,
                ours=worker,
                beside=f"{worker.best(RSS):.0f} MB at the end; "
                f"{worker.best(RATE):,.0f} pages/s from a site written in Python",
                goal=Goal("at most 150", most=150.0, of="measured"),
            )
        ]
