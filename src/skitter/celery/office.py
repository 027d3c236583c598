"""What one process keeps open: an event loop in a thread, the server, desks for jobs.

Celery runs a task in the main thread of a process that it forked. Everything asynchronous lives in
a thread beside it and is opened by the first task that needs it, so nothing is shared with the
parent. It stays open from one task to the next: a pump finds its connections warm.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import threading
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from skitter.app import Manners, open_server, open_worker
from skitter.celery.allowed import Rights, rights_of
from skitter.celery.charges import is_signed, signed
from skitter.celery.envelope import spider_of
from skitter.celery.place import place_of
from skitter.celery.secret import Secret, find_secret
from skitter.fetch.options import FetchOptions
from skitter.frontier.admin.jobs import open_job
from skitter.worker.loop import Worker, WorkerOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from concurrent.futures import Future

    from skitter.celery.charges import Charge
    from skitter.celery.config import CelerySettings
    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.settings import Settings
    from skitter.worker.delivery import Tally

T = TypeVar("T")
CLOSE_S = 5.0
#: Jobs that a process keeps warm; a service sees few, a stream of small map_reduces many.
MOST_DESKS = 8
MOST_FRONTIERS = 64
CLOSING, WATCHING = 0, 1  # flags


@dataclass(slots=True)
class Desk:
    """Where a process works on one job: client, robots.txt and links it knows stay from pump to
    pump."""

    charge: Charge
    frontier: Frontier
    first: Worker
    stack: AsyncExitStack
    rights: Rights

    @property
    def tally(self) -> Tally:
        return self.first.delivery.tally

    def worker(self, options: WorkerOptions) -> Worker:
        """A worker for one pump."""
        return Worker(
            self.frontier, self.first.attempts, self.first.delivery, self.first.logbook, options
        )


class Office:
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
        self._desks: dict[str, list[Desk]] = {}
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

    def sign(self, charge: Charge) -> Charge:
        return signed(charge, self.secret)

    def rights_of(self, charge: Charge) -> Rights:
        """Raises NotAllowed for what this worker may not run."""
        return rights_of(charge, self.settings, signed=is_signed(charge, self.secret))

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
    def closing(self) -> bool:
        """We were told to stop: hand back, finish up."""
        return self._leaving or bool(self._flags[CLOSING])

    def announce_close(self) -> None:
        """The worker stops, with all its processes."""
        self._flags[CLOSING] = 1

    def leave(self) -> None:
        """This process alone is to end; see `go_if_told`."""
        self._leaving = True

    def go_if_told(self) -> None:
        """End this process, if it alone was told to; otherwise its parent sees to it."""
        if self._leaving and not self._flags[CLOSING]:
            raise SystemExit(0)

    @property
    def watch_waits(self) -> bool:
        """The worker's last watch has not run in one of its processes."""
        return bool(self._flags[WATCHING])

    @watch_waits.setter
    def watch_waits(self, waits: bool) -> None:
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
        while len(self._frontiers) > MOST_FRONTIERS:
            self._frontiers.pop(next(iter(self._frontiers)))
        return known

    @asynccontextmanager
    async def desk(self, charge: Charge) -> AsyncIterator[Desk]:
        """A desk for one pump, of its own; it stays for the next one, unless that one failed."""
        desk = await self._borrow_desk(charge)
        try:
            yield desk
        except BaseException:
            await desk.stack.aclose()
            raise
        await self._return_desk(desk)

    async def _borrow_desk(self, charge: Charge) -> Desk:
        idle = self._desks.get(charge.job, [])
        while idle:
            desk = idle.pop()
            if desk.charge == charge:
                return desk
            # Another crawl of the same name: what that one knew is not true of this one.
            await desk.stack.aclose()
        return await self._open_desk(charge)

    async def _return_desk(self, desk: Desk) -> None:
        # Hooks run before a process's first page, not before each pump.
        desk.first.attempts.spider.hooks.start.clear()
        self._desks[desk.charge.job] = [*self._desks.pop(desk.charge.job, []), desk]
        while len(self._desks) > MOST_DESKS:
            for old in self._desks.pop(next(iter(self._desks))):
                await old.stack.aclose()

    async def _open_desk(self, charge: Charge) -> Desk:
        rights = self.rights_of(charge)  # before anything of it is loaded
        frontier = await open_job(await self.server(), charge.job)
        manners = Manners(
            obey_robots=rights.obey_robots,
            allowed_hosts=rights.hosts,
            fetch=FetchOptions(max_body_bytes=rights.max_page_bytes),
        )
        stack = AsyncExitStack()
        worker = await stack.enter_async_context(
            open_worker(frontier, spider_of(charge), manners=manners, options=WorkerOptions())
        )
        return Desk(charge, frontier, worker, stack, rights)

    async def _close(self) -> None:
        for desk in [desk for desks in self._desks.values() for desk in desks]:
            await desk.stack.aclose()
        self._desks.clear()
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
        self._desks, self._frontiers = {}, {}
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


def office_of(app: Any) -> Office:
    """The office that `register` gave the app."""
    office: Office = app.skitter
    return office
