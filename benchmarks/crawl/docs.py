"""docs: `skitter crawl` on real documentation, beside a spider, raw text, and no trap checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import msgspec

from benchmarks.contest import Contender, Goal, Part, Row, take_turns
from benchmarks.crawl.job import RATE, begin, worker_words
from benchmarks.crawl.speed import CPU
from benchmarks.documentation import publish_documentation
from benchmarks.ground import RUDE
from benchmarks.peers import CONCURRENT
from benchmarks.processes import run_to_end
from benchmarks.worker import Worked
from skitter.settings import Limits

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

UNCHECKED = replace(RUDE, limits=Limits(shape_budget=None))
LIMIT_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Docs(Part):
    """Text, markup and links as people write them: generated pages hide what these cost."""

    name: ClassVar[str] = "docs"
    rounds: int = 5

    async def measure(self, ground: Ground) -> list[Row]:
        assert ground.site is not None
        seed = ground.site.origin + publish_documentation(ground.site.www)
        done = set[int]()
        ours = Contender("crawl", partial(crawl_docs, ground, seed, "crawl", done))
        spider = Contender("a spider", partial(crawl_docs, ground, seed, "fields", done))
        unchecked = Contender(
            "itself without trap checks",
            partial(crawl_docs, ground, seed, "crawl", done, checked=False),
        )
        raw = Contender("raw text", partial(crawl_docs, ground, seed, "raw-text", done))
        every = [ours, unchecked, raw, spider]
        await take_turns(ground, every, part=self.name, rounds=self.rounds)
        [pages] = done  # all of them did the same
        what = f"`skitter crawl`, one worker, {pages:,} pages of real documentation"
        return [
            Row(
                what=f"{what}, best of {self.rounds}",
                figure=RATE,
                ours=ours,
                theirs=spider,
                beside="a spider that stores the same fields",
                goal=Goal("80% of the spider", least=0.8),
            ),
            Row(
                what="the same beside itself without trap checks",
                figure=RATE,
                ours=ours,
                theirs=unchecked,
                beside="shape_budget=none",
                goal=Goal("at most 1.1 times the time", least=1 / 1.1),
            ),
            Row(
                what="the same beside its raw text",
                figure=RATE,
                ours=ours,
                theirs=raw,
                beside="--format raw-text",
            ),
            *(
                Row(
                    what=f"CPU time of the worker process, least, beside {theirs.name}",
                    figure=CPU,
                    ours=ours,
                    theirs=theirs,
                )
                for theirs in (spider, unchecked, raw)
            ),
        ]


async def crawl_docs(
    ground: Ground, seed: str, handler: str, done: set[int], *, checked: bool = True
) -> Sample:
    """Also notes how many pages were done, which must be the same for all."""
    frontier = await begin(ground, seed, RUDE if checked else UNCHECKED)
    words = worker_words(ground, seed, concurrency=CONCURRENT, handler=handler)
    worked = msgspec.convert(await run_to_end(words, name=handler, limit_s=LIMIT_S), Worked)
    stats = await frontier.stats()
    done.add(stats.done)
    if len(done) > 1 or stats.items != stats.done or stats.trapped:
        raise AssertionError(
            f"{handler}: {stats.done:,} pages done, {stats.items:,} items, {stats.trapped:,} held; "
            f"others did {sorted(done)}"
        )
    return {
        RATE: [worked.pages / worked.seconds],
        CPU: [worked.cpu_s / worked.pages * 1e6],
    }
