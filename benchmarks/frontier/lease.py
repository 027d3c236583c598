"""lease: the time of lease(50) must not grow with the number of hosts.

Each number of hosts has its own job, filled first; then the jobs take turns. A turn leases 50 URLs
of 50 hosts, 20 times; then all are completed, each with a new link to its host, and the clock,
which is passed to the frontier, advances by a little over a second: the hosts just asked wait for
their delay and are woken in the next turn. So each call does the same work whatever the number of
hosts: 50 hosts woken, 50 hosts asked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from benchmarks.contest import Contender, Figure, Goal, Part, Row, take_turns
from benchmarks.ground import fill, make_urls
from skitter.frontier.jobs import create_job
from skitter.model import Completion, Request

if TYPE_CHECKING:
    from benchmarks.contest import Sample
    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease as Leased

LEASE, CALLS_A_TURN = 50, 20
URLS_A_HOST = 2
MAX_GROWTH = 1.5
SERVER, CLIENT = Figure("us", median), Figure("us", median)
_TURN_MS = 1_100  # a little more than the default delay between two requests to a host


@dataclass(frozen=True, kw_only=True)
class Lease(Part):
    """The numbers of hosts, ascending; each at least LEASE * CALLS_A_TURN."""

    name: ClassVar[str] = "lease"
    hosts: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    turns: int = 15

    async def measure(self, ground: Ground) -> list[Row]:
        await ground.clear()
        runners = [await _fill(ground, number) for number in self.hosts]
        jobs = [Contender(f"{one.hosts:,} hosts", one.turn, fresh=False) for one in runners]
        for job in jobs:  # warm up scripts, caches and the first hosts to wake
            await job.run()
        await take_turns(ground, jobs, part=self.name, rounds=self.turns)
        return [self._row(job, jobs[0], is_last=job is jobs[-1]) for job in jobs]

    def _row(self, job: Contender, first: Contender, *, is_last: bool) -> Row:
        words = f"at most {MAX_GROWTH} times that of {first.name}"
        return Row(
            what=f"lease({LEASE}) with {job.name}, "
            f"server, median of {self.turns * CALLS_A_TURN} calls",
            figure=SERVER,
            ours=job,
            theirs=first,
            beside=f"with {first.name}; {job.best(CLIENT):,.0f} us at the client",
            goal=Goal(words, most=MAX_GROWTH) if is_last else None,
        )


@dataclass(slots=True)
class Clock:
    """Server milliseconds that advance when a turn ends."""

    now_ms: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass(slots=True)
class Runner:
    """One job with its number of hosts."""

    ground: Ground
    hosts: int
    frontier: Frontier
    clock: Clock
    links: int = 0

    async def turn(self) -> Sample:
        sample: Sample = {SERVER: [], CLIENT: []}
        taken: list[Leased] = []
        for _ in range(CALLS_A_TURN):
            taken += await self._lease(sample)
        await self.frontier.complete([self._completion(lease) for lease in taken])
        self.clock.now_ms += _TURN_MS
        return sample

    async def _lease(self, sample: Sample) -> list[Leased]:
        before = await self.ground.script_time()
        started = time.perf_counter()
        leases = (await self.frontier.lease(LEASE)).leases
        sample[CLIENT].append((time.perf_counter() - started) * 1e6)
        after = await self.ground.script_time()
        sample[SERVER].append(after - before)
        if len(leases) != LEASE:
            raise AssertionError(f"{len(leases)} of {LEASE} URLs with {self.hosts:,} hosts")
        return leases

    def _completion(self, lease: Leased) -> Completion:
        self.links += 1
        link = Request(url=f"https://{lease.host}/catalogue/more-{self.links:09}.html?v=1")
        return Completion(lease=lease, links=[link])


async def _fill(ground: Ground, hosts: int) -> Runner:
    ground.progress(f"lease: {URLS_A_HOST} URLs for each of {hosts:,} hosts")
    clock = Clock()
    # The default politeness: one request at a time, a second apart.
    frontier = await create_job(ground.server, f"lease-{hosts}", clock=clock)
    await fill(frontier, make_urls(URLS_A_HOST * hosts, hosts=hosts), ground.progress)
    return Runner(ground, hosts, frontier, clock)
