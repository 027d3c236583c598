"""The benchmark of the frontier: sizes, order, report."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from benchmarks.ground import prepare_ground
from benchmarks.lease import measure_lease
from benchmarks.memory import measure_memory
from benchmarks.peers import scrapy_redis
from benchmarks.report import Report, describe_machine
from benchmarks.speed import measure_speed
from skitter.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from benchmarks.ground import Ground, Tell
    from benchmarks.peers import Peer
    from benchmarks.report import Finding

MEASUREMENTS = ("speed", "memory", "lease")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    speed_urls: int
    few_urls: int  # for the peer, which is slow; a quarter of it for us, one by one
    memory_urls: int
    url_hosts: int
    lease_hosts: tuple[int, ...]
    rounds: int = 3
    turns: int = 15


FULL = Sizes(
    speed_urls=200_000,
    few_urls=20_000,
    memory_urls=1_000_000,
    url_hosts=1_000,
    lease_hosts=(1_000, 10_000, 100_000, 1_000_000),
)
QUICK = Sizes(
    speed_urls=10_000,
    few_urls=1_000,
    memory_urls=50_000,
    url_hosts=50,
    lease_hosts=(1_000, 10_000, 50_000),  # a turn needs a thousand, so the last is a twentieth
    turns=5,
)


def run_frontier(
    *,
    quick: bool = False,
    only: Collection[str] = (),
    with_peer: bool = True,
    tell: Tell = lambda text: None,
) -> Report:
    """Measure, beside the peer unless it is left out. `only`: some of MEASUREMENTS, else all."""
    for name in only:
        if name not in MEASUREMENTS:
            raise BadOption("--only", name, "one of " + ", ".join(MEASUREMENTS))
    chosen = only or MEASUREMENTS
    peer = None
    if with_peer and set(chosen) != {"lease"}:
        tell("installing the peer, unless it is there")
        peer = scrapy_redis()
    loop_name, loop_factory = _event_loop()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_run(QUICK if quick else FULL, chosen, peer, tell, loop_name))


async def _run(
    sizes: Sizes, chosen: Collection[str], peer: Peer | None, tell: Tell, loop_name: str
) -> Report:
    started = time.perf_counter()
    async with prepare_ground(tell) as ground:
        machine = describe_machine(
            server=await ground.version(), event_loop=loop_name, peer=peer.name if peer else ""
        )
        findings = await measure(ground, peer, sizes, chosen)
    return Report(
        machine=machine,
        quick=sizes is QUICK,
        seconds=time.perf_counter() - started,
        findings=findings,
    )


async def measure(
    ground: Ground, peer: Peer | None, sizes: Sizes, chosen: Collection[str] = MEASUREMENTS
) -> list[Finding]:
    """The chosen measurements, one after the other; each is told as soon as it is known."""
    measurements = {
        "speed": lambda: measure_speed(
            ground,
            peer,
            urls=sizes.speed_urls,
            few_urls=sizes.few_urls,
            hosts=sizes.url_hosts,
            rounds=sizes.rounds,
        ),
        "memory": lambda: measure_memory(
            ground, peer, urls=sizes.memory_urls, hosts=sizes.url_hosts
        ),
        "lease": lambda: measure_lease(ground, hosts=sizes.lease_hosts, turns=sizes.turns),
    }
    findings: list[Finding] = []
    for name in MEASUREMENTS:
        if name in chosen:
            found = await measurements[name]()
            findings += found
            for one in found:
                ground.tell(f"{one.what}: {one.measured:,.1f} {one.unit}")
    return findings


def _event_loop() -> tuple[str, Callable[[], asyncio.AbstractEventLoop] | None]:
    try:
        import uvloop
    except ImportError:
        return "asyncio", None
    return f"uvloop {version('uvloop')}", uvloop.new_event_loop
