"""An agent: takes runs of the spiders in its list, and carries each out in a process of its own.

The process is `skitter run` in all but its terminal. It ends by itself if its agent dies; then
another agent goes on with the run. docs/adr/0083-runs.md explains it.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.crawl.carried import STARTED, Started
from skitter.engine.pulse import cancel_all
from skitter.errors import JobMissing, SkitterError, UsageError
from skitter.frontier.jobs import list_jobs, open_job
from skitter.frontier.records.agents import Agent, Offer, leave_agent, report_agent
from skitter.frontier.records.runs import RENEW_S, Hold, Lease, Runs, Spec
from skitter.frontier.records.schedule import advance, read_schedule
from skitter.frontier.workers import FETCHING, live_workers
from skitter.spider.offers import files_of, targets_of

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Mapping, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server

#: Of the environment of the process that loads the list.
OFFERED = "SKITTER_OFFERED"
TICK_S: Final = 0.5
REPORT_S: Final = 5.0
SAID_LINES: Final = 30
LOAD_S: Final = 60.0
MAX_LINE: Final = 2**24  # a report is one line
#: After that, a process that was told to end is killed.
END_S: Final = 60.0
HURRY_S: Final = 12.0
#: A process of a run that failed with this says nothing about the run: another try may succeed.
INFRASTRUCTURE: Final = 3


@dataclass(slots=True)
class Work:
    """A run that this agent has."""

    lease: Lease
    process: Process
    said: deque[str] = field(default_factory=lambda: deque(maxlen=SAID_LINES))
    is_stopped: bool = False  # somebody wants it to end
    is_lost: bool = False  # it is another agent's by now

    async def end(self, *, within_s: float) -> None:
        """Tell it to end; after that time, kill it."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), within_s)
            return
        with suppress(ProcessLookupError):
            self.process.kill()


@dataclass(slots=True)
class Agency:
    """Serves runs until it is told to stop."""

    server: Server
    patterns: Sequence[str]
    at_most: int  # runs at a time
    name: str
    environment: Mapping[str, str]
    say: Callable[[str], None]
    offers: dict[str, Offer] = field(default_factory=dict)
    runs: Runs = field(init=False)
    _works: dict[str, Work] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _said: dict[str, str] = field(default_factory=dict)  # what is wrong with a job
    _signals: int = 0
    _began: float = field(default_factory=time.time)
    _reported_at: float = -1e9
    _seen: str | None = None  # the files of the list, as they were when they were last loaded

    def __post_init__(self) -> None:
        self.runs = Runs.on(self.server)

    async def serve(self) -> None:
        """Until a signal; then its runs stop, and wait for another agent."""
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._stop)
        try:
            while not self._signals:
                await self._riding_out(self._tick())
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), TICK_S)
                self._wake.clear()
            if self._works:
                self.say(
                    "stopping: other agents continue its runs; Ctrl-C again does not wait for pages"
                )
            await self._end_all()
            with suppress(SkitterError):
                await leave_agent(self.server, self._agent())
        finally:
            await cancel_all(list(self._tasks))
            for number in numbers:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self._signals += 1
        self._wake.set()

    async def _end_all(self) -> None:
        ending = [
            asyncio.create_task(work.end(within_s=END_S)) for work in list(self._works.values())
        ]
        before = self._signals
        while self._tasks:
            await asyncio.wait(self._tasks, timeout=TICK_S)
            if self._signals > before:
                for work in self._works.values():
                    with suppress(ProcessLookupError):
                        work.process.terminate()  # a second time: without waiting for pages
                before = self._signals
        await asyncio.gather(*ending)

    async def _riding_out(self, step: Any) -> None:
        """A server that is away comes back: processes of runs wait for it, too."""
        try:
            await step
        except SkitterError as error:
            if not error.retryable:
                raise
            self.say(f"{error} Trying again.")
            await asyncio.sleep(TICK_S)

    async def _tick(self) -> None:
        if time.monotonic() - self._reported_at > REPORT_S:
            await self._look_at_list()
            await report_agent(self.server, self._agent())
            await self._begin_rounds()
            self._reported_at = time.monotonic()
        able = self._able
        while able and len(self._works) < self.at_most and not self._signals:
            lease = await self.runs.take(self.name, able)
            if lease is None:
                return
            try:
                await self._begin(lease)
            except (LookupError, OSError, ValueError) as error:
                await self._refuse(lease, error)

    async def _refuse(self, lease: Lease, error: Exception) -> None:
        """Others can write to the server; or this machine has no room for a process now."""
        is_full = isinstance(error, OSError) and error.errno != errno.E2BIG
        says = f"it cannot be started: {error!r}"
        await self.runs.end(lease, exit_code=None if is_full else 2, says=says, back=is_full)
        self.say(f"run {lease.id}: {says}")

    def _agent(self) -> Agent:
        return Agent(
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._began,
            at_most=self.at_most,
            runs=list(self._works),
            offers=list(self.offers.values()),
        )

    # --- its list ---------------------------------------------------------------------------------

    async def _look_at_list(self) -> None:
        """Load the spiders if a file has changed."""
        seen = _files_as_of_now(self.patterns)
        if seen == self._seen:
            return
        offers = await self._load_list()
        if offers is None and not self.offers:
            raise UsageError("the list of spiders cannot be loaded: see the error above.")
        is_first, self._seen = self._seen is None, seen
        if offers is None:
            self.say("the list of spiders cannot be loaded now: it stays as it was")
            return
        before, self.offers = self.offers, {offer.name: offer for offer in offers}
        for offer in offers:
            if offer.error and before.get(offer.name) != offer:
                self.say(f"{offer.name} cannot be run: {offer.error}")
        if not offers and (before or is_first):
            self.say(f"no spider in {', '.join(self.patterns)} below {Path.cwd()}: waiting for one")
        elif self._able != _able(before):
            self.say(f"offers {', '.join(self._able) or 'no spider'}")

    @property
    def _able(self) -> list[str]:
        return _able(self.offers)

    async def _load_list(self) -> list[Offer] | None:
        """In a process, as the spiders' code may do anything. None: it failed."""
        process = await asyncio.create_subprocess_exec(
            *(*_program(), "offers", "-", "--parent", str(os.getpid())),
            env={**self.environment, OFFERED: "\n".join(self.patterns)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        said = b""
        try:
            said, _ = await asyncio.wait_for(process.communicate(), LOAD_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        return None if process.returncode else msgspec.json.decode(said, type=list[Offer])

    async def _begin_rounds(self) -> None:
        """Start a run for a scheduled round that is due, unless somebody works on the job: the
        round begins with its first process. All agents give that run the same id."""
        jobs = set(await list_jobs(self.server))
        for offer in self.offers.values():
            job = offer.job or offer.name  # what it is without arguments
            needs_more = any(argument.default is None for argument in offer.arguments)
            if job in jobs and not offer.error and not needs_more:
                await self._begin_round_of(job, offer)

    async def _begin_round_of(self, job: str, offer: Offer) -> None:
        """A job that is damaged, or of a newer release, has no rounds here; others go on."""
        try:
            await self._begin_round(offer, await open_job(self.server, job, as_found=True))
        except JobMissing:  # it was removed since, as --fresh does
            return
        except SkitterError as error:
            if error.retryable:
                raise
            if self._said.get(job) != str(error):
                self.say(str(error))
            self._said[job] = str(error)

    async def _begin_round(self, offer: Offer, frontier: Frontier) -> None:
        schedule = await read_schedule(frontier)
        now_ms = round(1000 * await frontier.server_time())
        if not schedule or not schedule.is_due(now_ms):
            return
        kinds = {worker.kind for worker in await live_workers(frontier)}
        if kinds & FETCHING:  # a loader begins no round
            return
        spec = Spec(spider=offer.name, by="schedule", round_ms=schedule.next_ms)
        round_of = f"{frontier.job} {schedule.next_ms}"
        identity = hashlib.sha256(round_of.encode()).hexdigest()[:16]
        is_new = await self.runs.start(spec, identity, job=offer.job)
        if not is_new and (await self.runs.get(identity)).ended_at is not None:
            # It was stopped, or failed, before it began the round: the next round may do better.
            await advance(frontier, schedule, now_ms=now_ms)

    # --- a run ------------------------------------------------------------------------------------

    async def _begin(self, lease: Lease) -> None:
        offer = self.offers[lease.spec.spider]
        started = Started(lease=lease, target=offer.target)
        process = await asyncio.create_subprocess_exec(
            *_program(),
            *("started", lease.id, "--parent", str(os.getpid())),
            env={**self.environment, STARTED: msgspec.json.encode(started).decode()},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE,
            start_new_session=True,  # Ctrl-C reaches only us
        )
        work = self._works[lease.id] = Work(lease, process)
        again = f" again (lost agents: {lease.lost})" if lease.lost else ""
        self.say(f"run {lease.id}: {lease.spec.spider} begins{again}")
        task = asyncio.create_task(self._carry_out(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, work: Work) -> None:
        renewing = asyncio.create_task(self._renew(work))
        try:
            assert work.process.stdout
            report, _ = await asyncio.gather(work.process.stdout.read(), self._listen(work))
            code = await work.process.wait()
        finally:
            renewing.cancel()
        if code < 0 and not _is_whole(report):  # it was killed while it wrote
            report = b""
        try:
            if not work.is_lost:
                await self._conclude(work, report, code)
        except SkitterError as error:  # another agent takes it over
            self.say(f"run {work.lease.id}: {error}")
        finally:
            del self._works[work.lease.id]
            self._wake.set()

    async def _listen(self, work: Work) -> None:
        assert work.process.stderr
        async for line in work.process.stderr:
            if text := line.decode("utf-8", "replace").strip():
                work.said.append(text)
                self.say(f"{work.lease.spec.spider}: {text}")

    async def _renew(self, work: Work) -> None:
        """Keep the run, and learn whether it is to end."""
        while True:
            await asyncio.sleep(RENEW_S)
            with suppress(SkitterError):  # the server is away: the process waits for it, too
                said = await self.runs.renew(work.lease.id, work.lease.token)
                if said is Hold.LOST:
                    work.is_lost = True
                    self.say(f"run {work.lease.id}: another agent has it now")
                    return await work.end(within_s=HURRY_S)
                if said is Hold.STOPPED and not work.is_stopped:
                    work.is_stopped = True
                    ending = asyncio.create_task(work.end(within_s=END_S))
                    self._tasks.add(ending)
                    ending.add_done_callback(self._tasks.discard)

    async def _conclude(self, work: Work, report: bytes, code: int) -> None:
        """Say what came of it, until the server has heard."""
        back = not work.is_stopped and self._goes_back(report, code)
        says = "" if report else "\n".join(work.said)
        what = "waits for another agent" if back else f"ended with exit code {code}"
        while True:
            try:
                is_ours = await self.runs.end(
                    work.lease,
                    exit_code=None if back or code < 0 else code,
                    report=b"" if back else report,
                    says=says,
                    back=back,
                    blamed=not self._signals,
                )
                break
            except SkitterError as error:
                if not error.retryable or self._signals > 1:  # told to stop now
                    raise
            await asyncio.sleep(TICK_S)
        if is_ours:
            self.say(f"run {work.lease.id}: {work.lease.spec.spider} {what}")

    def _goes_back(self, report: bytes, code: int) -> bool:
        """Whether nothing is decided: it was cut off, or the machine failed it."""
        if report:
            return bool(self._signals) and not msgspec.json.decode(report)["finished"]
        return code < 0 or code == INFRASTRUCTURE


def _is_whole(report: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(report))
    except msgspec.DecodeError:
        return False


def _able(offers: Mapping[str, Offer]) -> list[str]:
    return [offer.name for offer in offers.values() if not offer.error]


def _program() -> list[str]:
    return [sys.executable, "-P", "-m", "skitter"]


def _files_as_of_now(patterns: Sequence[str]) -> str:
    return "\n".join(f"{target} {_stamps(target)}" for target in targets_of(patterns))


def _stamps(target: str) -> list[tuple[str, int]]:
    """Empty for modules, whose files are not looked for."""
    with suppress(OSError):
        return [(str(file), file.stat().st_mtime_ns) for file in files_of(target)]
    return []
