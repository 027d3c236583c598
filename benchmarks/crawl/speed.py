"""speed: pages a second of one worker process, beside a bare loop and beside peers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from benchmarks.crawl.field import crawl_all
from benchmarks.crawl.processes import module_words, run_to_end
from benchmarks.crawl.tasks import BareFigures, BareTask
from benchmarks.report import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.crawl.peers import Rival
    from benchmarks.crawl.site import Site
    from benchmarks.crawl.sizes import Sizes
    from benchmarks.crawl.tasks import Worked
    from benchmarks.ground import Ground

CONCURRENT = 64
LEAST_OF_BARE = 0.6
LIMIT_S = 120.0


@dataclass(slots=True)
class Contest:
    """What a contender did, round by round."""

    rates: list[float] = field(default_factory=list)  # pages a second
    cpu_us: list[float] = field(default_factory=list)  # a page

    def take(self, figures: Worked | BareFigures) -> None:
        self.rates.append(figures.pages / figures.seconds)
        self.cpu_us.append(figures.cpu_s / figures.pages * 1e6)

    @property
    def best(self) -> float:
        return max(self.rates)


async def measure_speed(
    ground: Ground, site: Site, rivals: Sequence[Rival], sizes: Sizes
) -> list[Finding]:
    """Turn by turn. Peers have a smaller site and crawl all of it too: so each contender meets one
    new page a page, and 39 links that it knows."""
    seed, small = site.publish(sizes.pages), site.publish(sizes.rival_pages)
    ours, bares, theirs = Contest(), Contest(), [Contest() for _ in rivals]
    for number in range(1, sizes.rounds + 1):
        ground.tell(f"speed: round {number} of {sizes.rounds}, worker")
        ours.take(
            await crawl_all(
                ground, seed, pages=sizes.pages, concurrency=CONCURRENT, limit_s=LIMIT_S
            )
        )
        ground.tell(f"speed: round {number} of {sizes.rounds}, bare loop")
        bares.take(await crawl_bare(seed, sizes.pages))
        if number <= sizes.rival_rounds:
            for rival, contest in zip(rivals, theirs, strict=True):
                ground.tell(f"speed: round {number} of {sizes.rival_rounds}, {rival.title}")
                contest.rates.append(await rival_rate(ground, rival, small, sizes.rival_pages))
    await ground.clear()
    return [
        _beside_bare(ours, bares, sizes.pages),
        _cpu(ours, bares),
        *(
            _beside_rival(ours, contest, rival, sizes.rival_pages)
            for rival, contest in zip(rivals, theirs, strict=True)
        ),
    ]


async def crawl_bare(seed: str, pages: int) -> BareFigures:
    """The same pages without a frontier."""
    words = module_words("bare", BareTask(seed=seed, concurrency=CONCURRENT))
    figures = msgspec.convert(await run_to_end(words, limit_s=LIMIT_S), BareFigures)
    if figures.pages != pages:
        raise AssertionError(f"the bare loop did {figures.pages:,} of {pages:,} pages")
    return figures


async def rival_rate(ground: Ground, rival: Rival, seed: str, pages: int) -> float:
    """Pages a second of a peer, on a server that holds nothing else."""
    await ground.clear()
    await ground.quiet()
    figures = await rival.crawl(seed, pages=pages, socket=ground.socket)
    if figures["pages"] < pages:  # scrapy-redis fetches its seed twice
        raise AssertionError(f"{rival.title}: {figures['pages']:,} of {pages:,} pages")
    return float(figures["pages"] / figures["seconds"])


def _beside_bare(ours: Contest, bares: Contest, pages: int) -> Finding:
    ratio = ours.best / bares.best
    return Finding(
        name="speed",
        what=f"one worker, {CONCURRENT} concurrent, {pages:,} pages of 12.8 KB with 40 links, "
        f"titles to the stream, best of {len(ours.rates)}",
        unit="pages/s",
        measured=ours.best,
        beside="bare loop: same client, parser and join",
        peer=bares.best,
        ratio=ratio,
        goal=f"{LEAST_OF_BARE:.0%} of the bare loop",
        ok=ratio >= LEAST_OF_BARE,
        rounds=ours.rates,
        peer_rounds=bares.rates,
    )


def _cpu(ours: Contest, bares: Contest) -> Finding:
    return Finding(
        name="speed",
        what="CPU time of the worker process, least",
        unit="us/page",
        measured=min(ours.cpu_us),
        beside="bare loop",
        peer=min(bares.cpu_us),
        ratio=min(ours.cpu_us) / min(bares.cpu_us),
        rounds=ours.cpu_us,
        peer_rounds=bares.cpu_us,
    )


def _beside_rival(ours: Contest, theirs: Contest, rival: Rival, pages: int) -> Finding:
    ratio = ours.best / theirs.best
    least = rival.least_ratio
    return Finding(
        name="speed",
        what=f"the same worker beside {rival.title}",
        unit="pages/s",
        measured=ours.best,
        beside=f"{pages:,} pages, best of {len(theirs.rates)}",
        peer=theirs.best,
        ratio=ratio,
        goal="" if least is None else f"{least:.0f} times",
        ok=None if least is None else ratio >= least,
        rounds=ours.rates,
        peer_rounds=theirs.rates,
    )
