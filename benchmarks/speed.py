"""speed: add + lease + complete, against scrapy-redis's scheduler, round by round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from benchmarks.ground import fill, make_urls
from benchmarks.report import Finding
from skitter.frontier.admin.jobs import create_job
from skitter.model import Completion, Request
from skitter.settings import JobOptions, Politeness

if TYPE_CHECKING:
    from benchmarks.ground import Ground
    from benchmarks.peers import Peer
    from skitter.frontier.frontier import Frontier

LEASE = 500
TASKS = 2  # so that the client encodes while the server works, as in a worker
LEAST_RATIO = 10.0
#: Nothing to wait for: this is about the queue, not about manners.
RUDE = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=100_000))

Contender = Callable[[], Awaitable[float]]  # -> microseconds a URL


async def measure_speed(
    ground: Ground, peer: Peer | None, *, urls: int, few_urls: int, hosts: int, rounds: int
) -> list[Finding]:
    """Per URL, so the slow ones do fewer: the peer `few_urls`, one by one a quarter of that."""
    many, few = make_urls(urls, hosts=hosts), make_urls(few_urls, hosts=hosts)
    single = few[: max(1, few_urls // 4)]
    contenders: dict[str, Contender] = {
        "in batches": lambda: in_batches(ground, many),
        "one by one": lambda: one_by_one(ground, single),
    }
    if peer:
        path = ground.directory / "few.txt"
        path.write_text("\n".join(few))
        contenders["peer"] = lambda: _peer(ground, peer, str(path), few_urls)
    times = await _take_turns(ground, contenders, rounds)
    sizes = {"in batches": urls, "one by one": len(single)}
    return [_finding(how, size, times, peer, few_urls) for how, size in sizes.items()]


async def _take_turns(
    ground: Ground, contenders: dict[str, Contender], rounds: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(1, rounds + 1):
        for name, run in contenders.items():
            ground.tell(f"speed: round {number} of {rounds}, {name}")
            await ground.clear()
            await ground.quiet()
            times[name].append(await run())
    await ground.clear()
    return times


async def in_batches(ground: Ground, urls: list[str]) -> float:
    """As a worker does it: links by the hundreds, leases by the hundred, a few tasks at once."""
    frontier = await create_job(ground.server, "speed", options=RUDE)
    started = time.perf_counter()
    async with asyncio.TaskGroup() as adders:
        for first in range(TASKS):
            adders.create_task(fill(frontier, urls[first::TASKS]))
    async with asyncio.TaskGroup() as workers:
        for _ in range(TASKS):
            workers.create_task(_finish_all(frontier))
    return await _microseconds(frontier, started, len(urls))


async def _finish_all(frontier: Frontier) -> None:
    while leases := (await frontier.lease(LEASE)).leases:
        await frontier.complete([Completion(lease=lease) for lease in leases])


async def one_by_one(ground: Ground, urls: list[str]) -> float:
    """As a plain loop does it: three round trips a URL."""
    frontier = await create_job(ground.server, "speed", options=RUDE)
    started = time.perf_counter()
    for url in urls:
        await frontier.add([Request(url=url)])
    while leases := (await frontier.lease(1)).leases:
        await frontier.complete([Completion(lease=leases[0])])
    return await _microseconds(frontier, started, len(urls))


async def _microseconds(frontier: Frontier, started: float, urls: int) -> float:
    took = time.perf_counter() - started
    done = (await frontier.stats()).done
    if done != urls:
        raise AssertionError(f"{done:,} of {urls:,} URLs were completed")
    return took / urls * 1e6


async def _peer(ground: Ground, peer: Peer, path: str, urls: int) -> float:
    figures = await peer.run(verb="speed", socket=str(ground.socket), urls=path)
    if figures["popped"] != urls:
        raise AssertionError(f"the peer popped {figures['popped']:,} of {urls:,} URLs")
    return float(figures["seconds"]) / urls * 1e6


def _finding(
    how: str, size: int, times: dict[str, list[float]], peer: Peer | None, peer_urls: int
) -> Finding:
    best = min(times[how])
    theirs = times.get("peer", [])
    ratio = min(theirs) / best if theirs else None
    goal = how == "in batches"
    return Finding(
        name="speed",
        what=f"add + lease + complete of {size:,} URLs, {how}, best of {len(times[how])}",
        unit="us/URL",
        measured=best,
        beside=f"scrapy-redis: seen + push + pop of {peer_urls:,}" if peer else "",
        peer=min(theirs, default=None),
        ratio=ratio,
        goal=f"{LEAST_RATIO:.0f} times faster" if goal else "",
        ok=ratio >= LEAST_RATIO if goal and ratio is not None else None,
        rounds=times[how],
        peer_rounds=theirs,
    )
