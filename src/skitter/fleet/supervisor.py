"""Make reality follow the plan: so many workers, one loader, until the crawl is over."""

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

from skitter.errors import (
    InfrastructureError,
    JobMissing,
    JobRemoved,
    ServerStopped,
    SkitterError,
    UsageError,
)
from skitter.fleet.plan import USAGE, Load, bounded_wish, cannot_begin, wanted_processes
from skitter.fleet.process import Child, Death
from skitter.frontier.admin.log import log
from skitter.frontier.admin.workers import heartbeats, take_back, wanted_workers, was_heard
from skitter.frontier.connection import can_write

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from skitter.fleet.output import Output
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats

T = TypeVar("T")

TICK_S = 0.25
STOP_GRACE_S = 30.0
#: After a second signal: workers need a few seconds to hand back what they hold.
HURRY_S = 8.0
STOP_TICK_S = 0.1
FORFEIT_S = 1.0
LET_LOAD_S = 3.0
#: A worker that is alive and has not been heard of for so long stands still. It should have ended
#: itself long ago (engine/watchdog.py), but it may be stopped, or not be one of ours.
IS_KILLED_S = 120.0
LOOK_FOR_STUCK_S = 10.0


@dataclass(slots=True)
class Supervisor:
    """Keeps the processes of one job on this machine."""

    frontier: Frontier
    worker_command: list[str]
    loader_command: list[str] | None  # None: no loader here
    workers: int | None  # None: automatic
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    on_tick: Callable[[Stats, int], Awaitable[None]] | None = None
    output: Output | None = None  # where the processes print
    on_output: Callable[[str], None] = lambda _: None  # one line of that, or of our own
    keep_alive: bool = False
    restarts: int = 0
    stopped_by: signal.Signals | None = None  # the first signal
    _crew: list[Child] = field(default_factory=list)
    _leaving: list[Child] = field(default_factory=list)
    _loader: Child | None = None
    _signals: int = 0
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _patience_ends: float = math.inf
    _looked_at: float = 0.0
    _is_away: bool = False
    _is_gone: bool = False
    _in_flight: int = 0

    async def run(self) -> bool:
        """Until the crawl is over (True) or somebody stops us (False)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        if self.loader_command:
            self._loader = Child("loader", self.loader_command, self.environment, self.output)
        try:
            while not self._signals:
                if await self._tick():
                    return True
                await self._unless_stopped(asyncio.sleep(TICK_S))
            return False
        except JobMissing as gone:
            raise JobRemoved(self.frontier.job) from gone
        finally:
            with suppress(JobMissing, ServerStopped):  # said already, or about to be
                await self._stop_all()
            self._pass_on()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop in order; a second time, tell the processes not to wait for what is under way."""
        self._signals += 1
        self.stopped_by = self.stopped_by or number
        if self._signals == 1:
            pages = f"{self._in_flight:,} page" + "s" * (self._in_flight != 1)
            self.on_output(f"stopping: {pages} in flight; again to stop now")
        elif self._signals == 2:
            self.on_output("stopping now: what is in flight is handed back")
        self._stopping.set()
        grace_s = STOP_GRACE_S if self._signals == 1 else HURRY_S
        self._patience_ends = min(self._patience_ends, time.monotonic() + grace_s)
        if self._signals > 1:
            for child in self._children:
                child.tell(signal.SIGTERM)

    def _pass_on(self) -> None:
        for line in self.output.read() if self.output else []:
            self.on_output(line)

    async def _tick(self) -> bool:
        """One look at everything. True: it is over."""
        self._pass_on()
        try:
            over = await self._look()
        except JobMissing:
            if self._loader or not self.keep_alive:
                raise
            self._tell_gone(gone=True)
            return False  # so do the workers
        except SkitterError as error:
            if not error.retryable:
                raise
            self._tell_away(f"{error} Waiting.", away=True)
            return False  # the workers wait as well
        self._tell_away("The server is back.", away=False)
        self._tell_gone(gone=False)
        return over

    def _tell_gone(self, *, gone: bool) -> None:
        """`run --fresh` removes a job, and makes it anew. Whoever only works for it waits."""
        if gone != self._is_gone:
            self._is_gone = gone
            what = "was removed: waiting until somebody runs it again" if gone else "is there again"
            self.on_output(f"The crawl {self.frontier.job!r} {what}.")

    def _tell_away(self, text: str, *, away: bool) -> None:
        """Once when it goes, once when it is back."""
        if away != self._is_away:
            self._is_away = away
            self.on_output(text)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What it answers; None when somebody stops us first. Only for work without effect."""
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
        wish = bounded_wish(await wanted_workers(self.frontier), os.cpu_count() or 1)
        over = self._is_over(stats)
        if not over:
            await self._follow_plan(self.workers if wish is None else wish, stats)
        if self._loader:
            await self._mourn(await self._loader.ensure())
        await self._kill_the_stuck()
        if self.on_tick:
            await self.on_tick(stats, await self._at_work())
        return over

    def _is_over(self, stats: Stats) -> bool:
        """Without a loader here, items are somebody else's business."""
        return not self.keep_alive and (stats.finished if self._loader else stats.crawled)

    async def _follow_plan(self, wish: int | None, stats: Stats) -> None:
        waiting = stats.pending + stats.delayed + stats.leased
        load = Load(cores=os.cpu_count() or 1, waiting=waiting, cpu_share=_cpu_share())
        wanted = wanted_processes(wish, len(self._crew), load)
        while len(self._crew) < wanted:
            self._crew.append(Child("worker", self.worker_command, self.environment, self.output))
        while len(self._crew) > wanted:
            child = self._crew.pop()
            child.tell(signal.SIGTERM)
            self._leaving.append(child)
        for child in self._crew:
            if child.finished and not stats.crawled:
                child.finished = False  # work came back after it went home
            await self._mourn(await child.ensure())
        await self._take_leave()

    async def _take_leave(self) -> None:
        """Also who dies on the way home holds what others should get."""
        gone = [child for child in self._leaving if not child.running]
        self._leaving = [child for child in self._leaving if child.running]
        for child in gone:
            if death := child.bury():
                await self._take_back(death, death.cause)

    async def _kill_the_stuck(self) -> None:
        """Its leases come back; the page that did it is dead after a few of those."""
        last, now = self._looked_at, time.monotonic()
        if now - last < LOOK_FOR_STUCK_S:
            return
        if not await can_write(self.frontier.server):
            self._looked_at = 0.0
            return  # its disk is full: nobody can be heard of
        self._looked_at = now
        if now - last > 2 * LOOK_FOR_STUCK_S:
            return  # the server was away, or we have just begun: nobody could be heard of
        at, here = await self.frontier.server_time(), socket.gethostname()
        silent = {
            one.pid
            for one in await heartbeats(self.frontier)
            if one.host == here and at - one.at > IS_KILLED_S
        }
        for child in self._children:
            if child.process and child.running and child.process.pid in silent:
                child.tell(signal.SIGKILL)

    async def _mourn(self, death: Death | None) -> None:
        if death:
            await self._check_hope(death)
            self.restarts += 1
            text = f"{death}{self.output.tell_stuck() if self.output else ''}"
            self.on_output(f"{text}.")
            await self._take_back(death, text)

    async def _check_hope(self, death: Death) -> None:
        heard = await was_heard(self.frontier, death.client)
        if not cannot_begin(death.code, heard=heard, in_a_row=death.in_a_row):
            return
        self._pass_on()  # it may have said why since we looked
        text = f"the {death.what} cannot begin: it says why above."
        raise UsageError(text) if death.code == USAGE else InfrastructureError(text)

    async def _take_back(self, death: Death, text: str) -> None:
        """What a dead worker held is handed out again at once, and not when its leases run out."""
        taken = await take_back(self.frontier, death.client)
        text = f"{text}; {taken} requests were taken back from it"
        await log(self.frontier, "error", f"supervisor-{os.getpid()}", text)

    @property
    def _children(self) -> list[Child]:
        return [*self._crew, *self._leaving, *([self._loader] if self._loader else [])]

    async def _stop_all(self) -> None:
        """Workers first, so that the loader still gets what they hand in."""
        self._patience_ends = min(self._patience_ends, time.monotonic() + STOP_GRACE_S)
        await self._stop_workers()
        if self._loader:
            if self._loader.running:
                await self._let_load()
            await self._stop([self._loader])

    async def _at_work(self) -> int:
        return sum(child.running for child in self._crew)

    async def _stop_workers(self) -> None:
        await self._stop(self._crew + self._leaving)

    async def _let_load(self) -> None:
        """The loader may take what the workers have just handed in; a database that is away, or
        somebody in a hurry, is not waited for: items stay on the server."""
        with suppress(SkitterError, TimeoutError):
            async with asyncio.timeout(LET_LOAD_S):
                while self._signals < 2:
                    if not (await self.frontier.stats()).items:
                        return
                    await asyncio.sleep(STOP_TICK_S)

    async def _stop(self, children: list[Child]) -> None:
        """SIGTERM; when patience ends, which a second signal makes soon, SIGKILL."""
        for child in children:
            child.tell(signal.SIGTERM)
        ends = {asyncio.create_task(child.ended()) for child in children}
        while ends and time.monotonic() < self._patience_ends:
            _, ends = await asyncio.wait(ends, timeout=STOP_TICK_S)
        for child in [child for child in children if child.running]:
            client = await child.kill()
            with suppress(SkitterError, TimeoutError):  # else its leases run out by themselves
                async with asyncio.timeout(FORFEIT_S):
                    await take_back(self.frontier, client)


def _cpu_share() -> float:
    """How busy the machine is, by its one-minute load."""
    return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
