"""A blocking connection to the frontier's server, which callers and tasks keep open.

It needs no event loop and no thread, so a process of greenlets has one too. It connects to a server
that runs already, and never starts one.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from skitter.embedded import address_of
from skitter.frontier.control import read_birth
from skitter.frontier.frontier import OPTIONS_FRESH_S
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import connect
from skitter.frontier.transport.sync import run_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.settings import Settings

T = TypeVar("T")
MAX_JOBS = 64
PATIENCE_S = 10.0


class KnownJob(NamedTuple):
    """A job as it was when it was last opened."""

    born: str
    frontier: Frontier
    at: float


@dataclass(slots=True)
class KnownJobs:
    """The jobs of one connection."""

    jobs: dict[str, KnownJob] = field(default_factory=dict)

    async def find(self, server: Server, job: str) -> KnownJob:
        """Opens it again now and then: it may have new options, or be a new one of its name. Raises
        JobMissing."""
        now, known = time.monotonic(), self.jobs.pop(job, None)
        if known is None or now - known.at > OPTIONS_FRESH_S:
            frontier = await open_job(server, job)
            known = KnownJob(await read_birth(frontier), frontier, now)
        self.jobs[job] = known
        while len(self.jobs) > MAX_JOBS:
            self.jobs.pop(next(iter(self.jobs)))
        return known


@dataclass(slots=True)
class Line:
    """One per process. Threads take turns."""

    server: Server
    stack: AsyncExitStack
    pid: int = field(default_factory=os.getpid)
    known: KnownJobs = field(default_factory=KnownJobs)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, where: Settings) -> Self:
        """Raises ServerUnreachable."""
        url, password = where.redis_url, None
        if url is None:
            embedded = address_of(where.directory)
            url, password = embedded.url, embedded.password

        async def opened() -> Self:
            async with AsyncExitStack() as stack:
                server = await stack.enter_async_context(connect(url, password=password))
                return cls(server, stack.pop_all())

        return run_sync(opened())

    @property
    def is_ours(self) -> bool:
        """False in a child that was forked: its parent uses it."""
        return self.pid == os.getpid()

    def run(self, work: Callable[[Server], Coroutine[Any, Any, T]], *, patience_s: float) -> T:
        with self._lock:
            self.server.patience_s = patience_s
            return run_sync(work(self.server))

    def close(self) -> None:
        run_sync(self.stack.aclose())
