"""speed: add + lease + complete, compared with scrapy-redis's scheduler."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.ground import RUDE, add_and_finish, check_done, make_urls
from benchmarks.peers import SCHEDULER, Peer
from skitter.frontier.jobs import create_job
from skitter.queue import URLQueue

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier

AHEAD = 50  # URLs that the loop leases ahead
TIME, WORK = Figure("us/URL", min, inverse=True), Figure("us/URL", min, inverse=True)
GOALS = {
    "in batches": Goal("12 times faster", least=12.0),
    "one by one": Goal("twice as fast", least=2.0),
}


@dataclass(frozen=True, kw_only=True)
class Speed(Part):
    """Per URL, so the slow ones do fewer: the peer `few_urls`, one by one a quarter of that."""

    name: ClassVar[str] = "speed"
    urls: int = 200_000
    few_urls: int = 20_000
    hosts: int = 1_000
    rounds: int = 3
    peers: tuple[Peer, ...] = (SCHEDULER,)

    async def measure(self, ground: Ground) -> list[Row]:
        few = make_urls(self.few_urls, hosts=self.hosts)
        ways = {
            "in batches": (in_batches, make_urls(self.urls, hosts=self.hosts)),
            "one by one": (one_by_one, few[: max(1, self.few_urls // 4)]),
        }
        ours = [Contender(name, partial(run, ground, urls)) for name, (run, urls) in ways.items()]
        peers = [Contender(peer.title, partial(_ask, ground, peer, few)) for peer in self.peers]
        await take_turns(ground, [*ours, *peers], part=self.name, rounds=self.rounds)
        theirs = next(iter(peers), None)
        beside = f"scrapy-redis: seen + push + pop of {self.few_urls:,}" if peers else ""
        rows = [
            Row(
                what=f"add + lease + complete of {len(ways[one.name][1]):,} URLs, {one.name}, "
                f"best of {self.rounds}",
                figure=TIME,
                ours=one,
                theirs=theirs,
                beside=beside,
                goal=GOALS[one.name],
            )
            for one in ours
        ]
        return rows + [
            Row(
                what=f"CPU time of client and server for a URL, {one.name}, least",
                figure=WORK,
                ours=one,
                theirs=theirs,
                beside="scrapy-redis" if peers else "",
            )
            for one in ours
        ]


async def in_batches(ground: Ground, urls: list[str]) -> Sample:
    frontier = await create_job(ground.server, "speed", options=RUDE)
    before = await _cpu_s(ground)
    took = await add_and_finish(frontier, urls)
    return await _microseconds(frontier, took, await _cpu_s(ground) - before, len(urls))


async def one_by_one(ground: Ground, urls: list[str]) -> Sample:
    """As a plain loop does it, with a queue that leases ahead."""
    frontier = await create_job(ground.server, "speed", options=RUDE)
    before = await _cpu_s(ground)
    took = await asyncio.to_thread(_loop, frontier.job, f"unix://{ground.socket}", urls)
    return await _microseconds(frontier, took, await _cpu_s(ground) - before, len(urls))


async def _cpu_s(ground: Ground) -> float:
    """Of the server, and of this process."""
    return time.process_time() + await ground.server_cpu_s()


def _loop(job: str, redis: str, urls: list[str]) -> float:
    with URLQueue(job, redis=redis, ahead=AHEAD) as queue:
        started = time.perf_counter()
        for url in urls:
            queue.push(url)
        while task := queue.pop():
            queue.complete(task)
        queue.flush()
        return time.perf_counter() - started


async def _microseconds(frontier: Frontier, took: float, worked: float, urls: int) -> Sample:
    await check_done(frontier, urls)
    return {TIME: [took / urls * 1e6], WORK: [worked / urls * 1e6]}


async def _ask(ground: Ground, peer: Peer, urls: list[str]) -> Sample:
    path = ground.directory / "few.txt"
    path.write_text("\n".join(urls))
    before = await ground.server_cpu_s()
    figures = await peer.run(verb="speed", socket=str(ground.socket), urls=str(path))
    if figures["popped"] != len(urls):
        raise AssertionError(f"the peer popped {figures['popped']:,} of {len(urls):,} URLs")
    worked = figures["cpu_seconds"] + await ground.server_cpu_s() - before
    return {TIME: [figures["seconds"] / len(urls) * 1e6], WORK: [worked / len(urls) * 1e6]}
