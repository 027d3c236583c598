"""A run, as the process knows it that carries it out for an agent."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.engine.pulse import is_orphan
from skitter.errors import FrontierError, SkitterError, UsageError
from skitter.frontier.records.runs import RENEW_S, Hold, Lease, Runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.frontier.transport.connection import Server
    from skitter.model import Stats
    from skitter.observe.report import Report

#: Of the environment: what a process needs to know of its run.
STARTED = "SKITTER_STARTED"
ORPHAN_S: Final = 0.5


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What a process gets that carries out a run."""

    lease: Lease
    target: str


def started() -> Started:
    """Of this process. Its own children must not inherit it."""
    return msgspec.json.decode(os.environ.pop(STARTED), type=Started)


@dataclass(slots=True)
class Carried:
    """The run, its agent, and the descriptor that the agent reads its report from."""

    started: Started
    parent: int
    out: int
    pages_before: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float | None:
        """Of --max-time; None: it has none."""
        if not (longest_s := self.started.lease.spec.max_time_s):
            return None
        waited_s = time.monotonic() - self.began
        return max(1.0, longest_s - self.started.lease.spent_s - waited_s)

    @property
    def discards(self) -> bool:
        """An earlier agent may have discarded the crawl before it."""
        return self.started.lease.spec.fresh and not self.started.lease.job

    def check_job(self, job: str) -> None:
        """Raises UsageError if the token that started it is not for this job."""
        within = self.started.lease.spec.within
        if within and not any(fnmatchcase(job, pattern) for pattern in within):
            raise UsageError(
                f"the token that started this run does not allow {job}, only {', '.join(within)}."
            )

    async def opened(self, server: Server) -> None:
        """Nothing was discarded or begun yet: after a long pause, another agent may have it."""
        if is_orphan(self.parent) or await self._renew(server) is Hold.LOST:
            raise FrontierError("another agent has this run.")

    async def note_begun(self, server: Server, job: str, version: str, before: Stats) -> bool:
        """From now on, no earlier crawl is discarded again. False: another agent has the run."""
        done = before.done + before.again
        lease = self.started.lease
        self.pages_before = done - lease.done_before if lease.job else 0
        said = await self._renew(server, job=job, version=version, done=done)
        return said is not Hold.LOST

    async def _renew(self, server: Server, **known: Any) -> Hold:
        """Until the server has heard."""
        lease, runs = self.started.lease, Runs.on(server)
        while True:
            try:
                return await runs.renew(lease.id, lease.token, **known)
            except SkitterError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(RENEW_S)

    def ended(self, report: Report) -> None:
        """With the pages that earlier agents did in this run."""
        report = replace(report, pages_now=report.pages_now + self.pages_before)
        write_out(self.out, msgspec.json.encode(report, enc_hook=int))


def take_stdout() -> int:
    """A descriptor for the agent; prints go to stderr from now on."""
    ours = os.dup(1)
    os.dup2(2, 1)
    return ours


def write_out(to: int, document: bytes) -> None:
    with os.fdopen(to, "wb") as pipe:
        pipe.write(document)


async def leave_if_orphaned(parent: int, stop: Callable[[], None]) -> None:
    """Without its agent, nobody keeps a run for us: another agent may have it already."""
    while not is_orphan(parent):  # noqa: ASYNC110
        await asyncio.sleep(ORPHAN_S)
    stop()
    stop()  # twice: without waiting for pages in flight
