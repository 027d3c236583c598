"""The benchmark of a crawl: order, report."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING

import uvloop

from benchmarks.crawl.engine import measure_engine
from benchmarks.crawl.memory import measure_memory
from benchmarks.crawl.peers import install_rivals
from benchmarks.crawl.profile import find_py_spy, measure_profile
from benchmarks.crawl.scale import measure_scale
from benchmarks.crawl.site import find_nginx, open_site
from benchmarks.crawl.sizes import FULL, QUICK, Sizes
from benchmarks.crawl.speed import measure_speed
from benchmarks.ground import prepare_ground
from benchmarks.report import Report, describe_machine
from skitter.errors import BadOption, InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from benchmarks.crawl.peers import Rival
    from benchmarks.crawl.site import Site
    from benchmarks.ground import Ground, Tell
    from benchmarks.report import Finding

MEASUREMENTS = ("speed", "celery", "scale", "memory", "profile")


def run_crawl(
    *,
    quick: bool = False,
    only: Collection[str] = (),
    with_peers: bool = True,
    tell: Tell = lambda text: None,
) -> Report:
    """Measure, beside the peers unless they are left out. `only`: some of MEASUREMENTS."""
    for name in only:
        if name not in MEASUREMENTS:
            raise BadOption("--only", name, "one of " + ", ".join(MEASUREMENTS))
    chosen = [name for name in MEASUREMENTS if not only or name in only]
    find_nginx()
    rivals: list[Rival] = []
    if with_peers and {"speed", "celery"} & set(chosen):
        tell("installing the peers, unless they are there")
        rivals = install_rivals()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(QUICK if quick else FULL, chosen, rivals, tell))


async def _run(
    sizes: Sizes, chosen: Collection[str], rivals: Sequence[Rival], tell: Tell
) -> Report:
    began = time.perf_counter()
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(prepare_ground(tell))
        site = await stack.enter_async_context(open_site(ground.directory / "site"))
        machine = describe_machine(
            server=f"{await ground.version()}, {site.server}",
            event_loop=f"uvloop {version('uvloop')}",
            peer="; ".join(dict.fromkeys(rival.peer.name for rival in rivals)),
        )
        findings = await measure(ground, site, rivals, sizes, chosen)
    return Report(
        machine=machine,
        quick=sizes is QUICK,
        seconds=time.perf_counter() - began,
        findings=findings,
    )


async def measure(
    ground: Ground,
    site: Site,
    rivals: Sequence[Rival],
    sizes: Sizes,
    chosen: Collection[str] = MEASUREMENTS,
) -> list[Finding]:
    """The chosen measurements, one after the other; each is told as soon as it is known."""
    measurements = {
        "speed": lambda: measure_speed(ground, site, rivals, sizes),
        "celery": lambda: measure_engine(ground, site, [r for r in rivals if r.is_celery], sizes),
        "scale": lambda: measure_scale(ground, seconds=sizes.scale_s, rounds=sizes.scale_rounds),
        "memory": lambda: measure_memory(ground, pages=sizes.memory_pages),
        "profile": lambda: _profile(ground, site, sizes.profile_pages),
    }
    findings: list[Finding] = []
    for name in MEASUREMENTS:
        if name in chosen:
            found = await measurements[name]()
            findings += found
            for one in found:
                ground.tell(f"{one.what}: {one.measured:,.1f} {one.unit}")
    return findings


async def _profile(ground: Ground, site: Site, pages: int) -> list[Finding]:
    try:
        py_spy: Path = await asyncio.to_thread(find_py_spy)
        return await measure_profile(ground, site.publish(pages), py_spy, pages=pages)
    except InfrastructureError as error:  # no package index, or no permission to look
        ground.tell(f"no profile: {error}")
        return []
