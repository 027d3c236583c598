"""How one worker process runs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path  # noqa: TC003 - the options read it
from typing import TYPE_CHECKING, Any, Self

from skitter.model import Lane  # noqa: TC001 - and this
from skitter.settings import Workers

if TYPE_CHECKING:
    from skitter.settings import WorkerConfig

#: Leases are this much longer in the browser lane: pages are slow and expensive there.
BROWSER_LEASES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions(Workers):
    """The configured options, and how this process runs."""

    parent: int | None = None  # the supervisor's pid: without it, we stop
    keep_alive: bool = False  # stay when the crawl has finished or was removed, for what comes next
    stuck_log: Path | None = None  # where the watchdog writes its stacks; None: stderr
    for_s: float | None = None  # lease for this long, then finish up; None: until it is over
    kind: str = "worker"  # what heartbeats call it
    watch_signals: bool = True  # not in a thread, nor where others handle signals
    #: The lanes it serves, and how many pages at a time; empty: plain HTTP, `concurrency`.
    lanes: dict[Lane, int] = field(default_factory=dict)

    @property
    def serves(self) -> dict[Lane, int]:
        return self.lanes or {"": self.concurrency}

    def lease_in_s(self, lane: Lane) -> float:
        return self.lease_s * BROWSER_LEASES if lane == "browser" else self.lease_s

    @classmethod
    def of(cls, config: WorkerConfig, **run: Any) -> Self:
        configured = {one.name: getattr(config.workers, one.name) for one in fields(Workers)}
        return cls(**{**configured, "keep_alive": config.keep_alive, **run})
