"""Child processes: started, restarted when they die, stopped together."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skitter.crawl.plan import USAGE, Load, is_hopeless, restart_after_s, wanted_processes
from skitter.crawl.printed import records
from skitter.engine.leases import find_dead, reclaim
from skitter.errors import InfrastructureError, SkitterError, UsageError
from skitter.frontier.transport.connection import can_write
from skitter.frontier.transport.endpoints import MARK, client_name, new_mark
from skitter.frontier.workers import heartbeats, log, take_back, was_heard
from skitter.observe.report import some

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skitter.crawl.printed import Output
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats


#: A process that ran this long was healthy: its death does not add to earlier ones.
HEALTHY_S = 10.0
#: One that exits sooner than this with work left is restarted after a delay.
SHORT_S = 1.0
STOP_TICK_S = 0.1
RECLAIM_S = 1.0
#: A process that runs but has not reported for this long is stuck. A worker should have exited long
#: before (engine/watchdog.py), but it may be suspended.
STUCK_S = 120.0
CHECK_STUCK_S = 10.0
TAKE_OVER_S = 2.0


class Death(NamedTuple):
    """How a process failed."""

    client: str  # its name on the server
    cause: str
    code: int
    restart_in_s: float


@dataclass(slots=True)
class Child:
    """A command to keep running. Exit code 0 means that it has nothing left to do."""

    what: str  # shown to users
    command: list[str]
    process: asyncio.subprocess.Process | None = None
    finished: bool = False
    dismissed: bool = False  # told to stop, not to be restarted
    deaths: int = 0
    death: Death | None = None  # the last one, until the server knows of it
    _client: str = ""
    _watching: asyncio.Task[None] | None = None
    _started_at: float = 0.0
    _not_before: float = 0.0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def may_start(self) -> bool:
        return not (self.running or self.finished) and time.monotonic() >= self._not_before

    async def start(self, environment: Mapping[str, str], output: Output | None) -> None:
        mark = new_mark()
        with output.open() if output else nullcontext() as file:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                env={**environment, MARK: mark, "PYTHONUNBUFFERED": "1"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C goes to the supervisor, which stops them in order
            )
        self._client = client_name(pid=self.process.pid, mark=mark)
        self._started_at = time.monotonic()

    def watch(self, on_end: Callable[[], None]) -> None:
        self._watching = asyncio.create_task(self.ended())
        self._watching.add_done_callback(lambda _: on_end())

    def reap(self) -> Death | None:
        """Notice that it ended. Returns how, if it failed, until `death` is reset."""
        if self.process is None or self.running:
            return self.death
        code, pid = self.process.returncode or 0, self.process.pid
        ran_s = time.monotonic() - self._started_at
        self.process = None
        if code == 0:
            self.finished = True
            self._not_before = time.monotonic() + (SHORT_S if ran_s < SHORT_S else 0.0)
            return None
        self.deaths = 1 if ran_s > HEALTHY_S else self.deaths + 1
        pause_s = restart_after_s(self.deaths)
        self._not_before = time.monotonic() + pause_s
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        cause = f"the {self.what}, process {pid}, {how}"
        self.death = Death(self._client, cause, code, pause_s)
        return self.death

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.running:
            self.process.send_signal(number)

    async def ended(self) -> None:
        if self.process is not None:
            await self.process.wait()

    async def kill(self) -> str:
        """Kill it and return its name on the server."""
        self.send(signal.SIGKILL)
        await self.ended()
        return self._client


@dataclass(slots=True)
class Children:
    """The child processes of one job on this machine."""

    frontier: Frontier
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    output: Output | None = None  # where they print; None: where we do
    on_output: Callable[[str], None] = lambda _: None  # called with each line, theirs and ours
    kill_at: float = math.inf  # when to kill those that still run
    _all: list[Child] = field(default_factory=list)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _checked_at: float = 0.0
    _looked_at: float = -math.inf

    def add(self, what: str, command: list[str]) -> Child:
        child = Child(what, command)
        self._all.append(child)
        return child

    async def keep_running(self, child: Child) -> None:
        """Start it, or restart it if it died. Raises if that is hopeless."""
        if death := child.reap():
            await self._check_hopeless(child, death)
            await self._report(death)
            child.death = None
        if child.may_start:
            await child.start(self.environment, self.output)
            child.watch(self._ended.set)

    def dismiss(self, child: Child) -> None:
        child.dismissed = True
        child.send(signal.SIGTERM)

    async def check(self) -> None:
        """Kill stuck processes, and reclaim the leases of those that died after being dismissed, or
        that ended with an earlier supervisor."""
        for child in [one for one in self._all if one.dismissed and not one.running]:
            if death := child.reap():
                await self._reclaim(death, death.cause)
            self._all.remove(child)
        await self._take_over()
        await self._kill_stuck()

    async def one_ended(self, *, within_s: float) -> None:
        """Returns when a process has ended since the last call, or when the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._ended.wait()
        self._ended.clear()

    def pass_on(self) -> None:
        """Show what they printed."""
        for text in records(self.output.read() if self.output else []):
            self.on_output(text)

    def send(self, number: signal.Signals) -> None:
        for child in self._all:
            child.send(number)

    def kill_within(self, seconds: float) -> None:
        self.kill_at = min(self.kill_at, time.monotonic() + seconds)

    async def stop(self, what: str) -> None:
        """SIGTERM; at `kill_at`, which a second Ctrl-C brings forward, SIGKILL."""
        children = [child for child in self._all if child.what == what]
        for child in children:
            child.send(signal.SIGTERM)
        ends = {asyncio.create_task(child.ended()) for child in children}
        while ends and time.monotonic() < self.kill_at:
            _, ends = await asyncio.wait(ends, timeout=STOP_TICK_S)
        for child in [child for child in children if child.running]:
            client = await child.kill()
            with suppress(SkitterError, TimeoutError):  # else its leases expire
                async with asyncio.timeout(RECLAIM_S):
                    await take_back(self.frontier, client, seen=True)

    async def _report(self, death: Death) -> None:
        stuck = self.output.find_stuck() if self.output else None
        text = f"{death.cause}; restarting in {death.restart_in_s:.1f} s"
        text += f"; {stuck}" if stuck else ""
        self.on_output(f"{text}.")
        await self._reclaim(death, text, f"stuck at {stuck.line}" if stuck and stuck.line else "")

    async def _check_hopeless(self, child: Child, death: Death) -> None:
        heard = await was_heard(self.frontier, death.client)
        if not is_hopeless(death.code, heard=heard, in_a_row=child.deaths):
            return
        self.pass_on()  # it may have printed the reason meanwhile
        text = f"the {child.what} cannot start: see the error above."
        raise UsageError(text) if death.code == USAGE else InfrastructureError(text)

    async def _reclaim(self, death: Death, text: str, why: str = "") -> None:
        """Return its leases to the queue now, not when they expire. `why`: what it hung on."""
        taken = await take_back(self.frontier, death.client, seen=True, why=why)
        text = f"{text}; {some(taken, 'request')} returned to the queue"
        await log(self.frontier, "error", f"supervisor-{os.getpid()}", text)

    async def _take_over(self) -> None:
        """Reclaim leases of this machine's workers that were killed along with their supervisor."""
        now = time.monotonic()
        if now - self._looked_at < TAKE_OVER_S:
            return
        self._looked_at = now
        workers = [
            heartbeat for heartbeat in await heartbeats(self.frontier) if heartbeat.kind == "worker"
        ]
        dead = await reclaim(self.frontier, await find_dead(self.frontier, workers))
        for beat, taken in dead:
            if taken:
                returned = f"{some(taken, 'request')} returned to the queue"
                gone = f"process {beat.pid}, a worker of another or an earlier run, is gone"
                text = f"{gone}; {returned}"
                self.on_output(f"{text}.")
                await log(self.frontier, "warning", f"supervisor-{os.getpid()}", text)

    async def _kill_stuck(self) -> None:
        """Their leases return to the queue; a page that does this repeatedly is buried."""
        last, now = self._checked_at, time.monotonic()
        if now - last < CHECK_STUCK_S:
            return
        if not await can_write(self.frontier.server):
            self._checked_at = 0.0
            return  # its disk is full: no worker can report
        self._checked_at = now
        if now - last > 2 * CHECK_STUCK_S:
            return  # the server was away, or we have just started: no worker could report
        at, here = await self.frontier.server_time(), socket.gethostname()
        silent = {
            heartbeat.pid
            for heartbeat in await heartbeats(self.frontier)
            if heartbeat.host == here and at - heartbeat.at > STUCK_S
        }
        for child in self._all:
            if child.process and child.process.pid in silent:
                child.send(signal.SIGKILL)


class WorkerPool(Protocol):
    """Who fetches the pages of a crawl, as a supervisor scales and stops them."""

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
