"""speed: pages a second of one worker process, beside a bare loop and beside peers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from benchmarks.bare import BareTask
from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns, times
from benchmarks.crawl.job import RATE, crawl_all
from benchmarks.peers import (
    CELERY_PLAIN,
    CELERY_TUNED,
    CONCURRENT,
    CRAWLEE_CRAWL,
    SCRAPY_REDIS_CRAWL,
    Peer,
)
from benchmarks.processes import module_words, run_to_end

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

CPU = Figure("us/page", min)
LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Speed(Part):
    """Peers have a smaller site and crawl all of it too: so each contender meets one new page a
    page, and 39 links that it knows."""

    name: ClassVar[str] = "speed"
    pages: int = 5000
    rounds: int = 3
    peer_pages: int = 1000
    peer_rounds: int = 2
    peers: tuple[Peer, ...] = (SCRAPY_REDIS_CRAWL, CRAWLEE_CRAWL, CELERY_PLAIN, CELERY_TUNED)

    async def measure(self, ground: Ground) -> list[Row]:
        seed = ground.publish(self.pages)
        ours = Contender("worker", partial(crawl_ours, ground, seed, self.pages))
        bare = Contender("bare loop", partial(crawl_bare, seed, self.pages))
        peers = make_rivals(ground, self.peers, pages=self.peer_pages, rounds=self.peer_rounds)
        await take_turns(ground, [ours, bare, *peers], part=self.name, rounds=self.rounds)
        return [
            Row(
                what=f"one worker, {CONCURRENT} concurrent, {self.pages:,} pages of 12.8 KB with "
                f"40 links, titles to the stream, best of {self.rounds}",
                figure=RATE,
                ours=ours,
                theirs=bare,
                beside="bare loop: same client, parser and join",
                goal=Goal("60% of the bare loop", least=0.6),
            ),
            Row(
                what="CPU time of the worker process, least",
                figure=CPU,
                ours=ours,
                theirs=bare,
                beside="bare loop",
            ),
            *(
                Row(
                    what=f"the same worker beside {peer.title}",
                    figure=RATE,
                    ours=ours,
                    theirs=theirs,
                    beside=f"{self.peer_pages:,} pages, best of {self.peer_rounds}",
                    goal=times(peer.least_ratio),
                )
                for peer, theirs in zip(self.peers, peers, strict=True)
            ),
        ]


async def crawl_ours(ground: Ground, seed: str, pages: int) -> Sample:
    worked = await crawl_all(ground, seed, pages=pages, limit_s=LIMIT_S)
    return _sample(worked.pages, worked.seconds, worked.cpu_s)


async def crawl_bare(seed: str, pages: int) -> Sample:
    """The same pages without a frontier."""
    words = module_words("bare", BareTask(seed=seed, concurrency=CONCURRENT))
    figures = await run_to_end(words, name="the bare loop", limit_s=LIMIT_S)
    if figures["pages"] != pages:
        raise AssertionError(f"the bare loop did {figures['pages']:,} of {pages:,} pages")
    return _sample(pages, figures["seconds"], figures["cpu_s"])


def _sample(pages: int, seconds: float, cpu_s: float) -> Sample:
    return {RATE: [pages / seconds], CPU: [cpu_s / pages * 1e6]}


def make_rivals(
    ground: Ground, peers: tuple[Peer, ...], *, pages: int, rounds: int
) -> list[Contender]:
    """Peers as contenders on a site of so many pages."""
    seed = ground.publish(pages)

    async def crawl(peer: Peer) -> Sample:
        figures = await peer.crawl(seed, pages=pages, socket=ground.socket)
        return {RATE: [figures["pages"] / figures["seconds"]]}

    return [Contender(peer.title, partial(crawl, peer), rounds) for peer in peers]
