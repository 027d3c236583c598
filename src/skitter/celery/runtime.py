"""What one process keeps open: an event loop in a thread, the server, warm workers.

Celery runs a task in the main thread of a forked process. Everything asynchronous lives in a second
thread, started by the first task that needs it, so nothing is shared with the parent. It stays open
between tasks: a pump finds its connections warm.
"""

from __future__ import annotations

import asyncio
import math
import mmap
import os
import signal
import sys
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import uvloop
from celery.backends.rpc import RPCBackend

from skitter.app import open_server
from skitter.celery.config import frontier_server, is_on_broker
from skitter.celery.jobs import spider_for
from skitter.celery.line import PATIENCE_S, REPLY_S, Brief, KnownJobs, Line
from skitter.celery.security import Secret, check_job, find_secret, granted, is_signed, signed
from skitter.engine.assembly import open_worker
from skitter.errors import ServerStopped, ServerUnreachable, UsageError
from skitter.frontier.jobs import open_job
from skitter.frontier.records.drivers import pump_secret
from skitter.frontier.transport.sync import has_loop, run_sync

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from concurrent.futures import Future

    from skitter.celery.config import CelerySettings
    from skitter.celery.jobs import JobSpec
    from skitter.celery.line import KnownJob
    from skitter.engine.delivery import Tally
    from skitter.engine.loop import Worker
    from skitter.engine.parts import WorkerOptions
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.settings import Settings

T = TypeVar("T")
Only = Literal["browser", "http"] | None
CLOSE_S = 5.0
#: Jobs that a process keeps warm; a service sees few, a stream of small map_reduces many.
MAX_WARM_JOBS = 8
STOPPING, WATCHING, TELLING = 0, 1, 2  # flags
NO_LOOP = (
    "this process runs on {0}, which has no place for the event loop that fetches pages: send the "
    "task to workers with `-P prefork` or `-P threads`, in a queue of their own."
)


@dataclass(slots=True)
class WarmWorker:
    """A job's client, robots.txt and known links, kept from pump to pump."""

    spec: JobSpec
    frontier: Frontier
    first: Worker
    stack: AsyncExitStack
    only: Only = None  # the kind of pages it fetches; None: all

    @property
    def tally(self) -> Tally:
        return self.first.delivery.tally

    def worker(self, kind: type[Worker], options: WorkerOptions) -> Worker:
        """A worker for one pump."""
        first, options = self.first, replace(options, lanes=self.first.options.lanes)
        return kind(
            self.frontier, first.attempts, first.delivery, first.logbook, options, first.strays
        )


@dataclass
class _Opened:
    """What one process has open, with its loop."""

    pid: int = field(default_factory=os.getpid)
    loop: asyncio.AbstractEventLoop = field(default_factory=uvloop.new_event_loop)
    connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    server: Server | None = None
    warm: dict[str, list[WarmWorker]] = field(default_factory=dict)
    known: KnownJobs = field(default_factory=KnownJobs)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run_loop, name="skitter", daemon=True)
        self.thread.start()

    def _run_loop(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def close(self) -> None:
        for warm in [worker for workers in self.warm.values() for worker in workers]:
            await warm.stack.aclose()
        await self.stack.aclose()


class Runtime:
    """One per app and process. `run` is for tasks and callers; async methods are for its loop."""

    def __init__(self, app: Any, settings: CelerySettings) -> None:
        self.app, self.settings = app, settings
        self.in_worker = False  # not in a caller
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._line: Line | None = None
        self._brief = Brief(app)
        self.told: list[tuple[str, dict[str, Any]]] = []  # events to be sent
        self._messages_until = -math.inf
        self.looked_at: dict[str, float] = {}  # job -> when this process last looked for its pumps
        self.machine = ""  # Celery's name for the worker
        self._flags = mmap.mmap(-1, 3)  # shared with the processes that Celery forks
        self._process_stops = False

    @cached_property
    def where(self) -> Settings:
        """The frontier's server. Raises UsageError if it is not known."""
        return frontier_server(self.settings, self.app.conf)

    @cached_property
    def secret(self) -> Secret | None:
        return find_secret(self.settings.secret, self.where)

    @cached_property
    def is_on_broker(self) -> bool:
        return is_on_broker(self.where, self.app.conf)

    def callback_secret(self) -> Secret | None:
        """Signs what a waiting task sends; not spiders and outputs, which whoever can send a task
        may still not choose. Not for the loop's own thread."""
        if self.secret or not self.is_on_broker:
            return self.secret

        async def read() -> Secret:
            return Secret(await pump_secret(await self.server()))

        return self.run(read())

    def sign(self, spec: JobSpec) -> JobSpec:
        return signed(spec, self.secret)

    def check_job(self, spec: JobSpec) -> str:
        """The DSN of its output. Raises NotAllowed for what this worker may not run."""
        return check_job(spec, self.settings, signed=is_signed(spec, self.secret))

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it in the loop."""
        return self._open().start(work)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop and wait for it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:  # Celery's time limit, Ctrl-C
            future.cancel()
            raise

    def ask(self, work: Callable[[Server], Coroutine[Any, Any, T]]) -> T:
        """Run it in this thread, without a loop of its own: also a process of greenlets can."""
        try:
            return self.call(work)
        except (ServerUnreachable, ServerStopped):
            if self.where.redis_url is not None:
                raise

        async def ask() -> T:
            async with open_server(self.where) as server:  # the embedded one: start it
                return await work(server)

        return self.run(ask()) if has_loop() else run_sync(ask())

    def call(
        self, work: Callable[[Server], Coroutine[Any, Any, T]], *, patience_s: float = PATIENCE_S
    ) -> T:
        """The same on a connection that stays open, to a server that runs already."""
        if has_loop():
            return self.run(self._within(patience_s + REPLY_S, work))
        with self._lock:
            if self._line is None or not self._line.is_ours:
                self._line = Line.open(self.where)
            line = self._line
        return line.run(work, patience_s=patience_s)

    async def _within(self, seconds: float, work: Callable[[Server], Coroutine[Any, Any, T]]) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work(await self.server())
        except TimeoutError:
            raise ServerUnreachable(
                f"the frontier's server does not answer within {seconds:g} s: check that it runs "
                "and that this machine may reach it."
            ) from None

    @property
    def brief(self) -> Brief:
        """This process's own: a child that was forked does not use its parent's."""
        if self._brief.pid != os.getpid():
            self._brief = Brief(self.app)
        return self._brief

    @property
    def can_hand_over(self) -> bool:
        """Whether a caller may put pages into the frontier: it knows where that is, and results are
        kept where anyone can note that the task waits."""
        backend = self.app.backend
        if isinstance(backend, RPCBackend) or time.monotonic() < self._messages_until:
            return False
        try:
            return bool(self.where)
        except UsageError:  # only workers know
            return False

    def use_messages(self, for_s: float) -> None:
        """The frontier is away: do not let each caller find out."""
        self._messages_until = time.monotonic() + for_s

    async def known_job(self, server: Server, job: str) -> KnownJob:
        """For `call`. Raises JobMissing."""
        line = self._line
        known = line.known if line and server is line.server else self._open().known
        return await known.find(server, job)

    def close(self) -> None:
        """Close everything and end the thread. The runtime can be reused afterwards."""
        line, self._line = self._line, None
        if line and line.is_ours:
            line.close()
        opened = self._opened
        if opened is None or opened.pid != os.getpid():
            return
        with suppress(TimeoutError):  # an unresponsive server must not keep us alive
            opened.start(opened.close()).result(CLOSE_S)
        opened.loop.call_soon_threadsafe(opened.loop.stop)
        self._opened = None
        opened.thread.join(CLOSE_S)

    def _open(self) -> _Opened:
        """Opens again after a fork: what the parent opened is the parent's."""
        if (name := greenlets()) and self._opened is None:
            raise UsageError(NO_LOOP.format(name))
        with self._lock:
            if self._opened is None or self._opened.pid != os.getpid():
                self._opened = _Opened()
            return self._opened

    # --- stopping, and flags shared by the processes of a worker ----------------------------------

    @property
    def stopping(self) -> bool:
        """If true, pumps return their leases and end."""
        return self._process_stops or bool(self._flags[STOPPING])

    def stop_worker(self) -> None:
        """Stop all processes of the worker."""
        self._flags[STOPPING] = 1

    @contextmanager
    def stopping_on_sigterm(self) -> Iterator[None]:
        """systemd and containers send SIGTERM to every process of a worker: let a pump return its
        leases, as at any other stop, instead of dying with them.

        Set around each pump, because Celery installs its own handlers in a new process after it has
        sent all its signals.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # a pool of threads: the process has only Celery's handler
            return

        def stop(*_: object) -> None:
            self._process_stops = True

        before = signal.signal(signal.SIGTERM, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
        if self._process_stops and not self._flags[STOPPING]:  # otherwise the parent ends us
            raise SystemExit(0)

    @property
    def watch_pending(self) -> bool:
        """Whether the worker's last watch has not run yet."""
        return bool(self._flags[WATCHING])

    @watch_pending.setter
    def watch_pending(self, pending: bool) -> None:
        self._flags[WATCHING] = pending

    @property
    def sends_events(self) -> bool:
        """Whether somebody, such as Flower, wants to see what becomes of tasks."""
        return bool(self._flags[TELLING])

    @sends_events.setter
    def sends_events(self, wanted: bool) -> None:
        self._flags[TELLING] = wanted

    # --- in the loop ------------------------------------------------------------------------------

    async def server(self) -> Server:
        """The frontier's server, connected once."""
        opened = self._open()
        async with opened.connecting:
            if opened.server is None:
                opened.server = await opened.stack.enter_async_context(open_server(self.where))
        return opened.server

    async def frontier(self, job: str) -> Frontier:
        """As it is now. Raises JobMissing."""
        return (await self._open().known.find(await self.server(), job, fresh_s=0)).frontier

    @asynccontextmanager
    async def warm_worker(self, spec: JobSpec, *, only: Only = None) -> AsyncIterator[WarmWorker]:
        """Exclusive to one pump; it stays warm for the next, unless this one fails."""
        warm = await self._take(spec, only)
        try:
            yield warm
        except BaseException:
            await warm.stack.aclose()
            raise
        await self._put_back(warm)

    async def _take(self, spec: JobSpec, only: Only) -> WarmWorker:
        idle = self._open().warm.get(spec.job, [])
        for warm in reversed(idle.copy()):
            if warm.spec == spec and warm.only != only:
                continue
            idle.remove(warm)
            if warm.spec == spec:
                return warm
            await warm.stack.aclose()  # from an earlier crawl of the same name
        return await self._open_worker(spec, only)

    async def _put_back(self, warm: WarmWorker) -> None:
        # Start hooks run before a process's first page, not before each pump.
        warm.first.attempts.spider.hooks.start.clear()
        idle = self._open().warm
        idle[warm.spec.job] = [*idle.pop(warm.spec.job, []), warm]
        while len(idle) > MAX_WARM_JOBS:
            for old in idle.pop(next(iter(idle))):
                await old.stack.aclose()

    async def _open_worker(self, spec: JobSpec, only: Only = None) -> WarmWorker:
        self.check_job(spec)  # before loading anything
        frontier = await open_job(await self.server(), spec.job)
        spider, stack = spider_for(spec), AsyncExitStack()
        is_ours = is_signed(spec, self.secret)
        config = granted(spec, spider, self.settings, signed=is_ours)
        config = replace(config, workers=replace(config.workers, only=only))
        worker = await stack.enter_async_context(open_worker(frontier, spider, config))
        return WarmWorker(spec, frontier, worker, stack, only)


def greenlets() -> str:
    """The library that has replaced the threads of this process by greenlets: gevent or eventlet.
    An event loop would block them all."""
    for name, module, test in (
        ("gevent", "gevent.monkey", "is_module_patched"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched"),
    ):
        if module in sys.modules and getattr(sys.modules[module], test)("socket"):
            return name
    return ""


def runtime_of(app: Any) -> Runtime:
    runtime: Runtime = app.skitter
    return runtime
