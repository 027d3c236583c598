"""lease: the time of lease(50) must not grow with the number of hosts.

Every number of hosts has a job of its own, filled first; then the jobs take turns, so that noise
and warmth are shared. A turn leases 50 URLs of 50 hosts, 20 times; then all are completed, each
with a new link to its host, and the clock (the frontier takes one) goes on by a second and a bit:
the hosts that were asked wait for their delay and are woken in the next turn. So each call does the
same work whatever the number of hosts: 50 hosts woken, 50 hosts asked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.ground import fill, make_urls
from benchmarks.report import Finding
from skitter.frontier.admin.jobs import create_job
from skitter.model import Completion, Lease, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.ground import Ground
    from skitter.frontier.frontier import Frontier

LEASE, CALLS_A_TURN = 50, 20
URLS_A_HOST = 2
MOST_GROWTH = 1.5
_TURN_MS = 1_100  # a little more than the default delay between two requests to a host


@dataclass(slots=True)
class Clock:
    """Server milliseconds that move when a turn ends."""

    now_ms: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass(slots=True)
class Runner:
    """One job with its number of hosts, and the times of its calls in microseconds."""

    hosts: int
    frontier: Frontier
    clock: Clock
    links: int = 0
    server_us: list[float] = field(default_factory=list)
    client_us: list[float] = field(default_factory=list)


async def measure_lease(ground: Ground, *, hosts: Sequence[int], turns: int) -> list[Finding]:
    """The number of hosts, from few to many; each at least LEASE * CALLS_A_TURN."""
    await ground.clear()
    runners = [await _fill(ground, number) for number in hosts]
    await ground.quiet()
    for runner in runners:  # scripts, caches and the first hosts to wake
        await _turn(ground, runner)
        runner.server_us.clear()
        runner.client_us.clear()
    for number in range(1, turns + 1):
        ground.tell(f"lease: turn {number} of {turns}")
        for runner in runners:
            await _turn(ground, runner)
    await ground.clear()
    return [_finding(runner, runners[0], last=runner is runners[-1]) for runner in runners]


async def _fill(ground: Ground, hosts: int) -> Runner:
    ground.tell(f"lease: {URLS_A_HOST} URLs for each of {hosts:,} hosts")
    clock = Clock()
    # The default politeness: one request at a time, a second apart.
    frontier = await create_job(ground.server, f"lease-{hosts}", clock=clock)
    await fill(frontier, make_urls(URLS_A_HOST * hosts, hosts=hosts), ground.tell)
    return Runner(hosts, frontier, clock)


async def _turn(ground: Ground, runner: Runner) -> None:
    taken: list[Lease] = []
    for _ in range(CALLS_A_TURN):
        taken += await _timed_lease(ground, runner)
    ends = []
    for lease in taken:
        runner.links += 1
        link = Request(url=f"https://{lease.host}/catalogue/more-{runner.links:09}.html?v=1")
        ends.append(Completion(lease=lease, links=[link]))
    await runner.frontier.complete(ends)
    runner.clock.now_ms += _TURN_MS


async def _timed_lease(ground: Ground, runner: Runner) -> list[Lease]:
    before, _ = await ground.script_time()
    started = time.perf_counter()
    leased = await runner.frontier.lease(LEASE)
    runner.client_us.append((time.perf_counter() - started) * 1e6)
    after, _ = await ground.script_time()
    runner.server_us.append(after - before)
    if len(leased.leases) != LEASE:
        raise AssertionError(f"{len(leased.leases)} of {LEASE} URLs with {runner.hosts:,} hosts")
    return leased.leases


def _finding(runner: Runner, first: Runner, *, last: bool) -> Finding:
    ratio = median(runner.server_us) / median(first.server_us)
    return Finding(
        name="lease",
        what=f"lease({LEASE}) with {runner.hosts:,} hosts, "
        f"server, median of {len(runner.server_us)} calls",
        unit="us",
        measured=median(runner.server_us),
        beside=f"{median(runner.client_us):,.0f} us at the client",
        ratio=ratio,
        goal=f"at most {MOST_GROWTH} times that of {first.hosts:,}" if last else "",
        ok=ratio <= MOST_GROWTH if last else None,
    )
