"""Runs a pool of workers and a loader until the crawl is over."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.crawl.children import ProcessPool
from skitter.crawl.plan import bounded
from skitter.engine.pulse import BEAT_S, memory_mb
from skitter.errors import JobMissing, JobRemoved, ServerStopped, SkitterError
from skitter.extras import RELEASE
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.workers import (
    SILENCE_S,
    Heartbeat,
    Wish,
    leave_machine,
    log_lost_machines,
    read_wish,
    report_machine,
    share_of,
    supervisors,
)
from skitter.observe.report import duration, some

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from skitter.crawl.children import Child, Children, WorkerPool
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats

T = TypeVar("T")

TICK_S = 0.25
ALONE_S = 1.0
STOP_S = 30.0
#: After a second signal: workers need a few seconds to return their leases.
HURRY_S = 8.0
LOAD_S, LOAD_TICK_S = 3.0, 0.02


@dataclass(slots=True)
class Membership:
    """This supervisor among those of the job: it reports, and learns its share of the workers."""

    frontier: Frontier
    name: str = field(default_factory=client_name)
    _started_at: float = 0.0
    _reported_at: float = -math.inf
    _names: list[str] = field(default_factory=list)

    async def report(self) -> None:
        if time.monotonic() - self._reported_at < BEAT_S:
            return
        now = await self.frontier.server_time()
        self._started_at = self._started_at or now
        here = Heartbeat(
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            kind="supervisor",
            started_at=self._started_at,
            at=now,
            memory_mb=memory_mb(),
            release=RELEASE,
        )
        await report_machine(self.frontier, here)
        self._names = [
            supervisor.name
            for supervisor in await supervisors(self.frontier)
            if now - supervisor.at < SILENCE_S
        ]
        self._reported_at = time.monotonic()
        if self._names[:1] == [self.name]:
            await log_lost_machines(self.frontier, self.name)

    async def share(self) -> Wish | None:
        """The operator's wish as far as it is ours; None: there is none."""
        wish = await read_wish(self.frontier)
        if wish is None or not wish.workers:
            return wish
        number = wish.workers
        if not wish.per_machine:
            number = share_of(number, self.name, self._names)
        return Wish(bounded(number, os.cpu_count() or 1), per_machine=True)

    async def leave(self) -> None:
        with suppress(SkitterError):
            await leave_machine(self.frontier, self.name)


@dataclass(slots=True)
class Supervisor:
    """Runs one job from this machine."""

    frontier: Frontier
    pool: WorkerPool
    children: Children  # the loader, and the pool's processes if it has any
    loader_command: list[str] | None = None  # None: no loader here
    workers: int | None = None  # None: automatic
    one_first: bool = False  # begin with one, as nobody asked for that number
    on_tick: Callable[[Stats], Awaitable[None]] | None = None
    keep_alive: bool = False
    stopped_by: signal.Signals | None = None  # the first signal
    _loader: Child | None = None
    _signals: int = 0
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _away: dict[str, float] = field(default_factory=dict)  # what, and since when
    _in_flight: int = 0
    _began: float = field(default_factory=time.monotonic)
    _member: Membership = field(init=False)

    def __post_init__(self) -> None:
        self._member = Membership(self.frontier)

    async def run(self) -> bool:
        """Until the crawl is over (True) or a signal stops us (False)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        if self.loader_command:
            self._loader = self.children.add("loader", self.loader_command)
        over = False
        try:
            while not self._signals:
                if over := await self._tick():
                    break
                await self._unless_stopped(self.children.one_ended(within_s=TICK_S))
            return over
        except JobMissing as missing:
            raise JobRemoved(self.frontier.job) from missing
        finally:
            with suppress(JobMissing, ServerStopped):  # already reported, or about to be
                await self._stop_all(over=over)
                await self._member.leave()
            self.children.pass_on()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop in order; the second time, without waiting for pages in flight."""
        self._signals += 1
        self.stopped_by = self.stopped_by or number
        self._stopping.set()
        if self._signals == 1:
            pages, again = some(self._in_flight, "page"), " again" * (number == signal.SIGINT)
            self._say(f"stopping: {pages} in flight; Ctrl-C{again} to stop now")
            self.children.kill_within(STOP_S)
            return
        if self._signals == 2:
            self._say("stopping now: pages in flight return to the queue")
        self.children.kill_within(HURRY_S)
        self.children.send(signal.SIGTERM)

    def _say(self, text: str) -> None:
        self.children.on_output(text)

    async def _tick(self) -> bool:
        """Check everything once; True when the crawl is over. Rides out a missing server or job."""
        self.children.pass_on()
        job = f"The crawl {self.frontier.job!r}"
        try:
            over = await self._look()
        except JobMissing:  # `run --fresh` removes a job and creates it again
            if self._loader or not self.keep_alive:
                raise
            self._report(job, f"{job} was removed: waiting until it is run again.", away=True)
            return False
        except SkitterError as error:
            if not error.retryable:
                raise
            self._report("The server", f"{error} Waiting.", away=True)
            return False
        for what in ("The server", job):
            away_s = time.monotonic() - self._away.get(what, 0.0)
            self._report(what, f"{what} is back after {duration(away_s)}.", away=False)
        return over

    def _report(self, what: str, text: str, *, away: bool) -> None:
        """Once when it goes away, once when it is back."""
        if away != (what in self._away):
            self._say(text)
            if away:
                self._away[what] = time.monotonic()
            else:
                del self._away[what]

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result; None if we are stopped first. Only for work without side effects."""
        tasks = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[1].cancel()
            return tasks[0].result()
        tasks[0].cancel()
        return None

    async def _look(self) -> bool:
        stats = await self._unless_stopped(self.frontier.stats())
        if stats is None:
            return False
        self._in_flight = stats.leased
        over = self._is_over(stats)
        if not over:
            await self.pool.scale(await self._wanted(stats), stats)
        if self._loader:
            self._loader.finished &= stats.finished  # else work arrived after it ended
            await self.children.keep_running(self._loader)
        await self.children.check()
        if self.on_tick:
            await self.on_tick(stats)
        return over

    async def _wanted(self, stats: Stats) -> int | None:
        """How many workers to run here; None: automatic."""
        if not isinstance(self.pool, ProcessPool):
            return None  # no processes of ours: it shares out the number itself
        await self._member.report()
        wish = await self._member.share()
        if wish is None:
            return self._usual(stats)
        return wish.workers if wish.per_machine else None

    def _usual(self, stats: Stats) -> int | None:
        """Many crawls are over before a second worker could help: it would only slow down the start
        of the first."""
        if stats.remaining > 1 and time.monotonic() - self._began > ALONE_S:
            self.one_first = False
        return 1 if self.one_first else self.workers

    def _is_over(self, stats: Stats) -> bool:
        """Without a loader here, items are stored elsewhere."""
        return not self.keep_alive and (stats.finished if self._loader else stats.crawled)

    async def _stop_all(self, *, over: bool) -> None:
        """Workers first, so that the loader gets their last items; if it is over, all at once."""
        self.children.kill_within(STOP_S)
        if over:
            self.children.send(signal.SIGTERM)
        await self.pool.stop()
        if self._loader:
            if self._loader.running:
                await self._let_load()
            await self.children.stop("loader")

    async def _let_load(self) -> None:
        """Wait for the loader, unless the database does not answer or Ctrl-C is pressed again:
        items stay on the server."""
        with suppress(SkitterError, TimeoutError):
            async with asyncio.timeout(LOAD_S):
                while self._signals < 2:
                    if not (await self.frontier.stats()).items:
                        return
                    await asyncio.sleep(LOAD_TICK_S)
