"""One Scrapy process: the same spider on three schedulers.

Scrapy itself is the limit: what counts is the cost of a shared, leased frontier on top of its own
in-memory queue, and the number of round trips.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.peers import CONCURRENT, SCRAPY_REDIS_CRAWL, Peer
from benchmarks.site import find_nginx
from benchmarks.suite import Suite
from skitter.sinks import MissingExtra

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground

RATE = Figure("pages/s")
CPU = Figure("ms/page", min)
TRIPS = Figure("trips/page", min)
OURS, PLAIN = (
    Peer(
        title=title,
        script="crawl_scrapy.py",
        task=(("engine", title), ("concurrency", CONCURRENT)),
    )
    for title in ("skitter", "plain")
)


@dataclass(frozen=True, kw_only=True)
class Node(Part):
    """Compared with plain Scrapy, and with scrapy-redis unless it is left out."""

    name: ClassVar[str] = "scrapy"
    pages: int = 5000
    rounds: int = 2
    peers: tuple[Peer, ...] = (replace(SCRAPY_REDIS_CRAWL, title="scrapy-redis"),)

    async def measure(self, ground: Ground) -> list[Row]:
        crawl = partial(crawl_site, ground, ground.publish(self.pages), self.pages)
        field = [Contender(one.title, partial(crawl, one)) for one in (OURS, PLAIN, *self.peers)]
        await take_turns(ground, field, part=self.name, rounds=self.rounds)
        ours, plain, *peers = field
        scrapy = f"plain Scrapy {version('scrapy')}"
        speed = Row(
            what=f"one node, {CONCURRENT} concurrent, {self.pages:,} pages, best of {self.rounds}",
            figure=RATE,
            ours=ours,
            theirs=plain,
            beside=scrapy,
            goal=Goal("90% of plain Scrapy", least=0.9),
        )
        # On a busy machine this says more than pages per second.
        cpu = Row(
            what="CPU time of the process, start and all, least",
            figure=CPU,
            ours=ours,
            theirs=plain,
            beside=scrapy,
        )
        rows = [speed, cpu]
        for peer in peers:
            beside = replace(speed, theirs=peer, beside=peer.name)
            trips = replace(beside, what="round trips to the server for a page", figure=TRIPS)
            rows += [
                replace(beside, goal=Goal("150% of scrapy-redis", least=1.5)),
                replace(trips, goal=Goal("at most 10%", most=0.1)),
            ]
        return rows


async def crawl_site(ground: Ground, seed: str, pages: int, peer: Peer) -> Sample:
    before = await _reads(ground)
    figures = await peer.crawl(seed, pages=pages, socket=ground.socket)
    done = figures["pages"]
    return {
        RATE: [done / figures["seconds"]],
        CPU: [figures["cpu_s"] / done * 1000],
        TRIPS: [(await _reads(ground) - before) / done],
    }


async def _reads(ground: Ground) -> int:
    """How often the server read from a client: once per round trip, however much was sent."""
    info = await ground.server.command("INFO", "stats")
    return int(info["total_reads_processed"])


def check() -> None:
    if find_spec("scrapy") is None:
        raise MissingExtra("this benchmark", "scrapy")
    find_nginx()


SCRAPY = Suite(
    about=__doc__, full=(Node(),), quick=(Node(pages=300, rounds=1),), with_site=True, check=check
)
