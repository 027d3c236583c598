"""The pulse of a process: its heartbeats and its log, sent to the server."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import SkitterError
from skitter.frontier.admin.log import log_lines
from skitter.frontier.admin.workers import Heartbeat, Vitals, beat, leave

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from skitter.frontier.frontier import Frontier
    from skitter.logs import ClusterLog

BEAT_S = 2.0
LINES_AT_ONCE = 200


@dataclass(slots=True, kw_only=True)
class Pulse:
    """Reports one worker or loader to the server every few seconds."""

    frontier: Frontier
    name: str
    kind: str
    logbook: ClusterLog
    vitals: Callable[[], Vitals]
    parent: int | None = None  # the process that supervises us
    on_orphaned: Callable[[], None] = lambda: None
    also: Callable[[Frontier], Awaitable[None]] | None = None  # what else to report
    began: float = field(default_factory=time.monotonic)
    handlers: tuple[str, ...] = ()
    _started_at: float = 0.0
    _beating: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Beat forever, even while the server is away: those who need it report that."""
        while True:
            with suppress(SkitterError):
                await self.beat()
            if is_orphan(self.parent):
                self.on_orphaned()
            await asyncio.sleep(BEAT_S)

    async def beat(self) -> None:
        """Send the log, then the heartbeat. Cancellation leaves the call in flight: the server may
        have it already, and the next beat waits for it instead of repeating it."""
        if self._beating and not self._beating.done():
            with suppress(SkitterError):
                await asyncio.shield(self._beating)
        self._beating = asyncio.create_task(self._send())
        await asyncio.shield(self._beating)

    async def _send(self) -> None:
        lines = self.logbook.waiting()
        server_now = await self.frontier.server_time() if lines else 0.0
        for start in range(0, len(lines), LINES_AT_ONCE):
            some = lines[start : start + LINES_AT_ONCE]
            now = time.monotonic()
            entries = [line.entry(now=now, server_now=server_now) for line in some]
            await log_lines(self.frontier, self.name, entries)
            self.logbook.sent(some[-1])
        await self.frontier.fresh_options()
        now = await self.frontier.server_time()
        self._started_at = self._started_at or now - (time.monotonic() - self.began)
        await beat(
            self.frontier,
            Heartbeat(
                name=self.name,
                host=socket.gethostname(),
                pid=os.getpid(),
                kind=self.kind,
                started_at=self._started_at,
                at=now,
                memory_mb=memory_mb(),
                handlers=self.handlers,
                **msgspec.structs.asdict(self.vitals()),
            ),
        )
        if self.also:
            await self.also(self.frontier)

    async def end(self) -> None:
        """Beat once more, then sign off."""
        with suppress(SkitterError):
            await self.beat()
            await leave(self.frontier, self.name)


def is_orphan(parent: int | None) -> bool:
    """Whether the process that supervised us is gone."""
    return parent is not None and os.getppid() != parent


def memory_mb() -> float:
    """Peak memory of this process. On Linux, ru_maxrss counts what the parent had at the fork, so
    it is used only where there is no /proc."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used / (2**20 if sys.platform == "darwin" else 1024)
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def rss_mb() -> float:
    """Memory that this process has now; where there is no /proc, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return memory_mb()
    return pages * resource.getpagesize() / 2**20


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel until they end: Python 3.11's `asyncio.wait_for`, which handlers and database clients
    use, swallows a cancellation that arrives together with its result."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.1)
