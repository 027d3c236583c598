"""The crawl: leases, fetches that take virtual time, completions."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.simulate.web import Place, Web, place_of
from skitter.frontier.frontier import LEASE_BATCH
from skitter.model import Completion, Failure, Feedback, Request

if TYPE_CHECKING:
    from benchmarks.frontier.lease import Clock
    from benchmarks.ground import Progress
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease

STEP_MS = 100
END_BATCH = 1_000
TASKS = 2  # the client encodes while the server works
TTL_S = 300.0


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    web: Web
    pages: int
    slots: int  # concurrent fetches of all workers
    seeds: int


@dataclass(slots=True)
class Turns:
    """When a host was asked, in the second half of the crawl."""

    pages: int = 0
    last_ms: int = 0
    longest_ms: int = 0


@dataclass(slots=True)
class Crawl:
    """One run."""

    frontier: Frontier
    clock: Clock
    plan: Plan
    progress: Progress
    chance: random.Random = field(default_factory=lambda: random.Random(14))
    done: int = 0
    failed: int = 0
    bounds: Counter[str] = field(default_factory=Counter)  # virtual ms by limiting factor
    in_flight: list[tuple[int, int, Lease, bool, int]] = field(default_factory=list)
    served: Counter[int] = field(default_factory=Counter)
    turns: defaultdict[int, Turns] = field(default_factory=lambda: defaultdict(Turns))
    #: Virtual ms and pages done at each tenth of the crawl.
    marks: list[tuple[int, int]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    async def run(self) -> None:
        web = self.plan.web
        seeds = [Request(url=Place(host, 0).url) for host in range(min(self.plan.seeds, web.hosts))]
        await self.frontier.add(seeds)
        self.marks.append((self.clock.now_ms, 0))
        while self.done < self.plan.pages:
            await self._end_fetches()
            if not await self._begin_fetches() and not self.in_flight:
                return  # the web is exhausted
            self.clock.now_ms += STEP_MS
            if self.done >= self.plan.pages * len(self.marks) / 10:
                self.marks.append((self.clock.now_ms, self.done))
                self.progress(f"{self.done:,} pages done, {len(self.in_flight):,} under way")

    @property
    def second_half(self) -> bool:
        return self.done * 2 >= self.plan.pages

    async def _begin_fetches(self) -> int:
        """Fill the slots. Returns the number of requests."""
        begun, most = 0, LEASE_BATCH * len(self.frontier.shards)
        while free := self.plan.slots - len(self.in_flight):
            leases = (await self.frontier.lease(min(free, most), ttl_s=TTL_S)).leases
            for lease in leases:
                self._begin(lease)
            begun += len(leases)
            if len(leases) < min(free, most):
                self.bounds["hosts"] += STEP_MS
                return begun
        self.bounds["slots"] += STEP_MS
        return begun

    def _begin(self, lease: Lease) -> None:
        place = place_of(lease.url)
        answer = self.plan.web.answer(place, self.chance)
        took_ms = round(1000 * answer.seconds)
        ends = (self.clock.now_ms + took_ms, next(self._numbers), lease, answer.ok, took_ms)
        heapq.heappush(self.in_flight, ends)
        self.served[place.host] += 1
        if self.second_half:
            turns, now = self.turns[place.host], self.clock.now_ms
            if turns.pages:
                turns.longest_ms = max(turns.longest_ms, now - turns.last_ms)
            turns.pages, turns.last_ms = turns.pages + 1, now

    async def _end_fetches(self) -> None:
        completions: list[Completion] = []
        failures: list[Failure] = []
        while self.in_flight and self.in_flight[0][0] <= self.clock.now_ms:
            _, _, lease, ok, took_ms = heapq.heappop(self.in_flight)
            feedback = Feedback(latency_ms=took_ms)
            if ok:
                links = self.plan.web.links(place_of(lease.url), self.chance)
                requests = [Request(url=one.url, depth=lease.request.depth + 1) for one in links]
                completions.append(Completion(lease=lease, links=requests, feedback=feedback))
            else:
                failures.append(Failure(lease=lease, error="no answer", feedback=feedback))
        if failures:
            await self.frontier.retry(failures)
        async with asyncio.TaskGroup() as group:
            for first in range(TASKS):
                group.create_task(self._complete(completions[first::TASKS]))
        self.done += len(completions)
        self.failed += len(failures)

    async def _complete(self, completions: list[Completion]) -> None:
        for first in range(0, len(completions), END_BATCH):
            await self.frontier.complete(completions[first : first + END_BATCH])
