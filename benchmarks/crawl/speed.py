"""speed: pages per second of one worker process, compared with a bare loop and with peers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import msgspec

from benchmarks.bare import BareFigures, BareTask
from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns, times
from benchmarks.crawl.job import RATE, ca_of, crawl_all
from benchmarks.peers import (
    CELERY_PLAIN,
    CELERY_TUNED,
    CONCURRENT,
    CRAWLEE_CRAWL,
    SCRAPY_CRAWL,
    SCRAPY_REDIS_CRAWL,
    Peer,
)
from benchmarks.processes import module_words, run_to_end

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground
    from benchmarks.worker import Worked

PER_CORE = Figure("pages/s of CPU")
CPU, MAIN_CPU = Figure("us/page", min), Figure("us/page", min)
LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Speed(Part):
    """Peers have a smaller site and crawl all of it too: so each contender finds one new page per
    page, and 39 known links."""

    name: ClassVar[str] = "speed"
    pages: int = 5000
    rounds: int = 3
    peer_pages: int = 1000
    peer_rounds: int = 2
    peers: tuple[Peer, ...] = (
        SCRAPY_CRAWL,
        SCRAPY_REDIS_CRAWL,
        CRAWLEE_CRAWL,
        CELERY_PLAIN,
        CELERY_TUNED,
    )

    async def measure(self, ground: Ground) -> list[Row]:
        seed = ground.publish(self.pages)
        ours = Contender("worker", partial(crawl_ours, ground, seed, self.pages))
        bare = Contender("bare loop", partial(crawl_bare, ground, seed, self.pages))
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
                goal=Goal("75% of the bare loop", least=0.75),
            ),
            *(
                Row(what=what, figure=figure, ours=ours, theirs=bare, beside="bare loop")
                for what, figure in (
                    ("CPU time of the worker process, least", CPU),
                    ("CPU time of its main thread, least", MAIN_CPU),
                )
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
    return sample_of(await crawl_all(ground, seed, pages=pages, limit_s=LIMIT_S))


async def crawl_bare(ground: Ground, seed: str, pages: int) -> Sample:
    """The same pages without a frontier."""
    task = BareTask(seed=seed, concurrency=CONCURRENT, ca_file=ca_of(ground, seed))
    said = await run_to_end(module_words("bare", task), name="the bare loop", limit_s=LIMIT_S)
    figures = msgspec.convert(said, BareFigures)
    if figures.pages != pages:
        raise AssertionError(f"the bare loop did {figures.pages:,} of {pages:,} pages")
    return sample_of(figures)


def sample_of(did: Worked | BareFigures) -> Sample:
    return {
        RATE: [did.pages / did.seconds],
        PER_CORE: [did.pages / did.cpu_s],
        CPU: [did.cpu_s / did.pages * 1e6],
        MAIN_CPU: [did.main_thread_cpu_s / did.pages * 1e6],
    }


def make_rivals(
    ground: Ground, peers: tuple[Peer, ...], *, pages: int, rounds: int
) -> list[Contender]:
    """Peers as contenders on a site of this many pages."""
    seed = ground.publish(pages)

    async def crawl(peer: Peer) -> Sample:
        figures = await peer.crawl(seed, pages=pages, socket=ground.socket)
        return {RATE: [figures["pages"] / figures["seconds"]]}

    return [Contender(peer.title, partial(crawl, peer), rounds) for peer in peers]
