"""tls: large pages over TLS, compared with a bare loop, and how many a core fetches and parses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Goal, Part, Row, take_turns
from benchmarks.crawl.job import RATE
from benchmarks.crawl.speed import CPU, PER_CORE, crawl_bare, crawl_ours
from benchmarks.peers import CONCURRENT

if TYPE_CHECKING:
    from benchmarks.ground import Ground

SIZE_BYTES = 200_000


@dataclass(frozen=True, kw_only=True)
class Tls(Part):
    """One self-signed certificate; connections are kept open.

    2,000 pages: the start of a worker takes 0.06 s of CPU time, an eighth of a crawl of 500.
    """

    name: ClassVar[str] = "tls"
    pages: int = 2000
    rounds: int = 3

    async def measure(self, ground: Ground) -> list[Row]:
        assert ground.site is not None
        path = ground.site.publish(self.pages, size_bytes=SIZE_BYTES)
        seed = ground.site.tls_origin + path
        ours = Contender("worker", partial(crawl_ours, ground, seed, self.pages))
        bare = Contender("bare loop", partial(crawl_bare, ground, seed, self.pages))
        await take_turns(ground, [ours, bare], part=self.name, rounds=self.rounds)
        return [
            Row(
                what=f"one worker, {CONCURRENT} concurrent, {self.pages:,} pages of "
                f"{SIZE_BYTES // 1000} KB by TLS, best of {self.rounds}",
                figure=RATE,
                ours=ours,
                theirs=bare,
                beside="bare loop: same client, parser and join",
                goal=Goal("80% of the bare loop", least=0.8),
            ),
            Row(
                what="pages for each second of CPU time, all threads, most",
                figure=PER_CORE,
                ours=ours,
                theirs=bare,
                beside="bare loop",
            ),
            Row(
                what="CPU time of the worker process, least",
                figure=CPU,
                ours=ours,
                theirs=bare,
                beside="bare loop",
            ),
        ]
