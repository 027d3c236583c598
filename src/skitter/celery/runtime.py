"""What one process keeps open: an event loop in a thread, the server, warm_workers for jobs.

Celery runs a task in the main thread of a process that it forked. Everything asynchronous lives in
a thread beside it and is opened by the first task that needs it, so nothing is shared with the
parent. It stays open from one task to the next: a pump finds its connections warm.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from skitter.app import open_server, open_worker
from skitter.celery.config import place_of
from skitter.celery.registry import spider_for
from skitter.celery.security import (
    Permissions,
    Secret,
    find_secret,
    is_signed,
    permissions_of,
    signed,
)
from skitter.frontier.admin.jobs import open_job
from skitter.worker.loop import Worker, WorkerOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from concurrent.futures import Future

    from skitter.celery.config import CelerySettings
    from skitter.celery.registry import JobSpec
    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.settings import Settings
    from skitter.worker.delivery import Tally


T = TypeVar("T")
CLOSE_S = 5.0
#: Jobs that a process keeps warm; a service sees few, a stream of small map_reduces many.
MAX_WARM_JOBS = 8
MAX_FRONTIERS = 64
STOPPING, WATCHING = 0, 1  # flags


@dataclass(slots=True)
class WarmWorker:
    """Where a process works on one job: client, robots.txt and links it knows stay from pump to
    pump."""

    spec: JobSpec
    frontier: Frontier
    first: Worker
    stack: AsyncExitStack
    permissions: Permissions

    @property
    def tally(self) -> Tally:
        return self.first.delivery.tally

    def worker(self, options: WorkerOptions) -> Worker:
        """A worker for one pump."""
        return Worker(
            self.frontier, self.first.attempts, self.first.delivery, self.first.logbook, options
        )


class Runtime:
    """One per app and process. `run` is for tasks and callers; the rest lives in the loop."""

    def __init__(self, app: Any, settings: CelerySettings) -> None:
        self.app, self.settings = app, settings
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._opening: asyncio.Lock | None = None
        self._stack = AsyncExitStack()
        self._server: Server | None = None
        self._warm: dict[str, list[WarmWorker]] = {}
        self._frontiers: dict[str, Frontier] = {}
        self._flags = mmap.mmap(-1, 2)  # shared with the children that Celery forks
        self._leaving = False
        self.in_worker = False  # and not in whoever sends tasks to workers

    @cached_property
    def where(self) -> Settings:
        """The frontier's server. Raises UsageError if nobody said where it is."""
        return place_of(self.settings, self.app.conf)

    @cached_property
    def secret(self) -> Secret | None:
        """What callers and workers share."""
        return find_secret(self.settings.secret, self.where)

    def sign(self, spec: JobSpec) -> JobSpec:
        return signed(spec, self.secret)

    def permissions_of(self, spec: JobSpec) -> Permissions:
        """Raises NotAllowed for what this worker may not run."""
        return permissions_of(spec, self.settings, signed=is_signed(spec, self.secret))

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run something in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._running_loop())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop and wait for it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:  # Celery's time limit, Ctrl-C
            future.cancel()
            raise

    @property
    def stopping(self) -> bool:
        """We were told to stop: hand back, finish up."""
        return self._leaving or bool(self._flags[STOPPING])

    def announce_stop(self) -> None:
        """The worker stops, with all its processes."""
        self._flags[STOPPING] = 1

    def leave(self) -> None:
        """This process alone is to end; see `exit_if_stopped`."""
        self._leaving = True

    def exit_if_stopped(self) -> None:
        """End this process, if it alone was told to; otherwise its parent sees to it."""
        if self._leaving and not self._flags[STOPPING]:
            raise SystemExit(0)

    @property
    def watch_pending(self) -> bool:
        """The worker's last watch has not run in one of its processes."""
        return bool(self._flags[WATCHING])

    @watch_pending.setter
    def watch_pending(self, waits: bool) -> None:
        self._flags[WATCHING] = waits

    def close(self) -> None:
        """Close everything and end the thread. Afterwards it may be used again."""
        loop = self._loop
        if loop is None or self._pid != os.getpid():
            return
        with suppress(TimeoutError):  # a server that does not answer must not keep us alive
            asyncio.run_coroutine_threadsafe(self._close(), loop).result(CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        self._loop = None
        if self._thread:
            self._thread.join(CLOSE_S)

    # --- in the loop ------------------------------------------------------------------------------

    async def server(self) -> Server:
        """The frontier's server, connected once."""
        assert self._opening is not None
        async with self._opening:
            if self._server is None:
                self._server = await self._stack.enter_async_context(open_server(self.where))
        return self._server

    async def frontier(self, job: str) -> Frontier:
        """A job that exists. Each client leaves a trace on the server, so a process is the same
        one at each call. Raises JobMissing."""
        found = await open_job(await self.server(), job)
        known = self._frontiers.pop(job, found)
        if known.layout != found.layout:  # purged, and made anew
            known = found
        known.options = found.options
        self._frontiers[job] = known
        while len(self._frontiers) > MAX_FRONTIERS:
            self._frontiers.pop(next(iter(self._frontiers)))
        return known

    @asynccontextmanager
    async def warm(self, spec: JobSpec) -> AsyncIterator[WarmWorker]:
        """A warm for one pump, of its own; it stays for the next one, unless that one failed."""
        warm = await self._borrow(spec)
        try:
            yield warm
        except BaseException:
            await warm.stack.aclose()
            raise
        await self._give_back(warm)

    async def _borrow(self, spec: JobSpec) -> WarmWorker:
        idle = self._warm.get(spec.job, [])
        while idle:
            warm = idle.pop()
            if warm.spec == spec:
                return warm
            # Another crawl of the same name: what that one knew is not true of this one.
            await warm.stack.aclose()
        return await self._open_worker(spec)

    async def _give_back(self, warm: WarmWorker) -> None:
        # Hooks run before a process's first page, not before each pump.
        warm.first.attempts.spider.hooks.start.clear()
        self._warm[warm.spec.job] = [*self._warm.pop(warm.spec.job, []), warm]
        while len(self._warm) > MAX_WARM_JOBS:
            for old in self._warm.pop(next(iter(self._warm))):
                await old.stack.aclose()

    async def _open_worker(self, spec: JobSpec) -> WarmWorker:
        permissions = self.permissions_of(spec)  # before anything of it is loaded
        frontier = await open_job(await self.server(), spec.job)
        config = replace(spec.config, fetch=permissions.fetch)
        stack = AsyncExitStack()
        worker = await stack.enter_async_context(open_worker(frontier, spider_for(spec), config))
        return WarmWorker(spec, frontier, worker, stack, permissions)

    async def _close(self) -> None:
        for warm in [warm for warm_workers in self._warm.values() for warm in warm_workers]:
            await warm.stack.aclose()
        self._warm.clear()
        self._frontiers.clear()
        self._server = None
        await self._stack.aclose()

    # --- the thread -------------------------------------------------------------------------------

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._begin()
            assert self._loop is not None
            return self._loop

    def _begin(self) -> None:
        """Also after a fork: what the parent had open is left to the parent."""
        self._pid = os.getpid()
        self._opening, self._server = asyncio.Lock(), None
        self._warm, self._frontiers = {}, {}
        self._stack = AsyncExitStack()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(
            target=_live, args=(self._loop,), name="skitter", daemon=True
        )
        self._thread.start()


def _live(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def runtime_of(app: Any) -> Runtime:
    """The runtime that `register` gave the app."""
    runtime: Runtime = app.skitter
    return runtime


@contextmanager
def stopping_on_sigterm(runtime: Runtime) -> Iterator[None]:
    """systemd and containers send SIGTERM to every process of a worker, not only to the first: a
    pump then hands back what it has, as at any other stop, instead of dying with it.

    Around each pump: Celery sets its own handlers after all its signals for a new process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # a pool of threads: the process has but one handler, Celery's
        return
    before = signal.signal(signal.SIGTERM, lambda *_: runtime.leave())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    runtime.exit_if_stopped()
