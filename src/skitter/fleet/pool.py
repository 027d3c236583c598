"""Who fetches the pages of a crawl."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from skitter.fleet.plan import Load, wanted_processes

if TYPE_CHECKING:
    from skitter.fleet.children import Child, Children
    from skitter.model import Stats


class WorkerPool(Protocol):
    """What a supervisor scales and stops."""

    async def scale(self, wanted: int | None, stats: Stats, /) -> None:
        """Called several times a second while there is work. None: automatic."""

    async def stop(self) -> None:
        """Returns when all workers have returned their leases or were killed."""


@dataclass(slots=True)
class ProcessPool:
    """Worker processes on this machine."""

    children: Children
    command: list[str]
    _workers: list[Child] = field(default_factory=list)

    async def scale(self, wanted: int | None, stats: Stats) -> None:
        load = Load(cores=os.cpu_count() or 1, waiting=stats.remaining, cpu_share=_cpu_share())
        number = wanted_processes(wanted, len(self._workers), load)
        while len(self._workers) < number:
            self._workers.append(self.children.add("worker", self.command))
        while len(self._workers) > number:
            self.children.dismiss(self._workers.pop())
        for child in self._workers:
            if child.finished and not stats.crawled:
                child.finished = False  # work arrived after it ended
            await self.children.keep_running(child)

    async def stop(self) -> None:
        await self.children.stop("worker")


def _cpu_share() -> float:
    """How busy the machine is, by its one-minute load average."""
    return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
