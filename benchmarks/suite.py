"""A suite: its parts in order, and the report."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import uvloop

from benchmarks.ground import prepare_ground
from benchmarks.report import Report, describe_machine
from skitter.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from benchmarks.contest import Part
    from benchmarks.ground import Ground, Progress
    from benchmarks.report import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Parts at full size, and at a twentieth of the work."""

    about: str | None  # the docstring of its module
    full: tuple[Part, ...]
    quick: tuple[Part, ...]
    with_site: bool = False
    check: Callable[[], object] = lambda: None  # raises if something is not installed

    def choose(self, *, quick: bool, only: Collection[str], with_peers: bool) -> list[Part]:
        parts = self.quick if quick else self.full
        names = [part.name for part in parts]
        for name in only:
            if name not in names:
                raise BadOption("--only", name, "one of " + ", ".join(names))
        chosen = [part for part in parts if not only or part.name in only]
        return chosen if with_peers else [replace(part, peers=()) for part in chosen]


def run_suite(
    suite: Suite,
    *,
    quick: bool = False,
    only: Collection[str] = (),
    with_peers: bool = True,
    progress: Progress = lambda text: None,
) -> Report:
    """Measure, with peers unless left out. `only`: names of parts, else all."""
    parts = suite.choose(quick=quick, only=only, with_peers=with_peers)
    suite.check()
    for peer in {peer.home: peer for part in parts for peer in part.peers}.values():
        progress(f"installing {peer.home}, unless it is there")
        peer.install()
    return uvloop.run(_run(suite, parts, quick=quick, progress=progress))


async def _run(suite: Suite, parts: Sequence[Part], *, quick: bool, progress: Progress) -> Report:
    began = time.perf_counter()
    versions = dict.fromkeys(peer.versions for part in parts for peer in part.peers)
    async with prepare_ground(progress, with_site=suite.with_site) as ground:
        machine = describe_machine(server=await ground.version(), peer="; ".join(versions))
        findings = await measure(ground, parts)
    seconds = time.perf_counter() - began
    return Report(machine=machine, quick=quick, seconds=seconds, findings=findings)


async def measure(ground: Ground, parts: Sequence[Part]) -> list[Finding]:
    """One part after the other; each finding is reported as soon as it is known."""
    findings: list[Finding] = []
    for part in parts:
        found = [row.finding(part.name) for row in await part.measure(ground)]
        findings += found
        for one in found:
            ground.progress(f"{one.what}: {one.measured:,.1f} {one.unit}")
    return findings
