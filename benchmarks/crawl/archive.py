"""archive: what it costs to keep the pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Goal, Part, Row, take_turns
from benchmarks.crawl.job import RATE, crawl_all
from benchmarks.crawl.speed import CPU, LIMIT_S, MAIN_CPU, crawl_ours, sample_of

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground


@dataclass(frozen=True, kw_only=True)
class Archive(Part):
    """The same crawl with and without."""

    name: ClassVar[str] = "archive"
    pages: int = 5000
    rounds: int = 3

    async def measure(self, ground: Ground) -> list[Row]:
        seed = ground.publish(self.pages)
        keeping = Contender("keeps pages", partial(_crawl_keeping, ground, seed, self.pages))
        plain = Contender("worker", partial(crawl_ours, ground, seed, self.pages))
        await take_turns(ground, [keeping, plain], part=self.name, rounds=self.rounds)
        what = f"{self.pages:,} pages of 12.8 KB, kept as WARC, best of {self.rounds}"
        goal = Goal("90% of a worker that keeps none", least=0.9)
        return [
            Row(what=what, figure=RATE, ours=keeping, theirs=plain, beside="worker", goal=goal),
            *(
                Row(what=what, figure=figure, ours=keeping, theirs=plain, beside="worker")
                for what, figure in (
                    ("CPU time of the process, least", CPU),
                    ("CPU time of its main thread, least", MAIN_CPU),
                )
            ),
        ]


async def _crawl_keeping(ground: Ground, seed: str, pages: int) -> Sample:
    with TemporaryDirectory() as folder:
        return sample_of(
            await crawl_all(ground, seed, pages=pages, limit_s=LIMIT_S, archive=folder)
        )
