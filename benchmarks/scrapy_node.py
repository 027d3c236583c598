"""One Scrapy process: the same spider on three schedulers, turn by turn.

Scrapy itself is the limit: what a shared, leased frontier costs on top of its own queue in memory
is what counts, and how often the server is asked.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from benchmarks.crawl.site import find_nginx, open_site
from benchmarks.ground import prepare_ground
from benchmarks.peers import SCRAPY_REDIS, Peer, environment
from benchmarks.report import Finding, Report, describe_machine
from skitter.sinks import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.ground import Ground, Tell

CONCURRENT = 64
LEAST_OF_PLAIN, LEAST_OF_PEER, MOST_OF_TRIPS = 0.9, 1.5, 0.1
SCRIPT = "scrapy_node.py.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Of one run."""

    pages: int
    rounds: int


FULL, QUICK = Sizes(pages=5000, rounds=2), Sizes(pages=300, rounds=1)


@dataclass(slots=True)
class Contender:
    """One scheduler, and what it did, round by round."""

    engine: str
    peer: Peer
    rates: list[float] = field(default_factory=list)  # pages a second
    cpu_ms: list[float] = field(default_factory=list)  # of the process, a page
    trips: list[float] = field(default_factory=list)  # round trips a page

    async def crawl(self, ground: Ground, seed: str, pages: int) -> None:
        await ground.clear()
        await ground.quiet()
        before = await _reads(ground)
        figures = await self.peer.run(
            engine=self.engine, socket=str(ground.socket), seed=seed, concurrency=CONCURRENT
        )
        done = int(figures["pages"])
        if done < pages:  # Scrapy and scrapy-redis fetch their seed twice
            raise AssertionError(f"{self.engine}: {done:,} of {pages:,} pages")
        self.rates.append(done / figures["seconds"])
        self.cpu_ms.append(figures["cpu_s"] / done * 1000)
        self.trips.append((await _reads(ground) - before) / done)


async def _reads(ground: Ground) -> int:
    """How often the server read from a client: once per round trip, however much was sent."""
    info: dict[str, Any] = await ground.server.command("INFO", "stats")
    return int(info["total_reads_processed"])


def run_scrapy(
    *, quick: bool = False, with_peers: bool = True, tell: Tell = lambda text: None
) -> Report:
    """Measure beside plain Scrapy, and beside scrapy-redis unless it is left out."""
    if find_spec("scrapy") is None:
        raise MissingExtra("this benchmark", "scrapy")
    find_nginx()
    here = Path(sys.executable)
    field = [Contender(name, Peer("Scrapy", here, SCRIPT)) for name in ("skitter", "plain")]
    if with_peers:
        tell("installing scrapy-redis, unless it is there")
        python = environment("scrapy-redis", SCRAPY_REDIS)
        field.append(Contender("scrapy-redis", Peer("scrapy-redis", python, SCRIPT)))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(QUICK if quick else FULL, field, tell))


async def _run(sizes: Sizes, field: Sequence[Contender], tell: Tell) -> Report:
    began = time.perf_counter()
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(prepare_ground(tell))
        site = await stack.enter_async_context(open_site(ground.directory / "site"))
        machine = describe_machine(
            server=f"{await ground.version()}, {site.server}",
            event_loop=f"uvloop {version('uvloop')}",
            peer=f"Scrapy {version('scrapy')}; " + " ".join(SCRAPY_REDIS).replace("==", " "),
        )
        findings = await measure(ground, site.publish(sizes.pages), field, sizes)
    seconds = time.perf_counter() - began
    return Report(machine=machine, quick=sizes is QUICK, seconds=seconds, findings=findings)


async def measure(
    ground: Ground, seed: str, field: Sequence[Contender], sizes: Sizes
) -> list[Finding]:
    for number in range(1, sizes.rounds + 1):
        for one in field:
            ground.tell(f"scrapy: round {number} of {sizes.rounds}, {one.engine}")
            await one.crawl(ground, seed, sizes.pages)
            ground.tell(
                f"{one.engine}: {one.rates[-1]:,.1f} pages/s, {one.trips[-1]:.3f} trips/page"
            )
    ours, plain, *peers = field
    found = [
        _speed(ours, plain, sizes, goal=LEAST_OF_PLAIN, words="of plain Scrapy"),
        _cpu(ours, plain),
    ]
    for peer in peers:
        found.append(_speed(ours, peer, sizes, goal=LEAST_OF_PEER, words="of scrapy-redis"))
        found.append(_trips(ours, peer))
    return found


def _speed(ours: Contender, theirs: Contender, sizes: Sizes, *, goal: float, words: str) -> Finding:
    ratio = max(ours.rates) / max(theirs.rates)
    return Finding(
        name="scrapy",
        what=f"one node, {CONCURRENT} concurrent, {sizes.pages:,} pages, best of {sizes.rounds}",
        unit="pages/s",
        measured=max(ours.rates),
        beside=theirs.engine,
        peer=max(theirs.rates),
        ratio=ratio,
        goal=f"{goal:.0%} {words}",
        ok=ratio >= goal,
        rounds=ours.rates,
        peer_rounds=theirs.rates,
    )


def _cpu(ours: Contender, theirs: Contender) -> Finding:
    """On a busy machine this says more than pages a second."""
    return Finding(
        name="scrapy",
        what="CPU time of the process, start and all, least",
        unit="ms/page",
        measured=min(ours.cpu_ms),
        beside=theirs.engine,
        peer=min(theirs.cpu_ms),
        ratio=min(ours.cpu_ms) / min(theirs.cpu_ms),
        rounds=ours.cpu_ms,
        peer_rounds=theirs.cpu_ms,
    )


def _trips(ours: Contender, theirs: Contender) -> Finding:
    ratio = min(ours.trips) / min(theirs.trips)
    return Finding(
        name="scrapy",
        what="round trips to the server for a page",
        unit="trips/page",
        measured=min(ours.trips),
        beside=theirs.engine,
        peer=min(theirs.trips),
        ratio=ratio,
        goal=f"at most {MOST_OF_TRIPS:.0%}",
        ok=ratio <= MOST_OF_TRIPS,
        rounds=ours.trips,
        peer_rounds=theirs.trips,
    )
