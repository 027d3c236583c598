"""Whether Redis answers, and pushes that are sent to it in batches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.engine.pulse import cancel_all
from skitter.errors import ServerUnreachable, SkitterError
from skitter.frontier.control import read_birth
from skitter.frontier.jobs import open_job
from skitter.observe.report import duration, moment
from skitter.server.problems import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.requests import Offer
    from skitter.frontier.transport.connection import Server
    from skitter.model import Added


T = TypeVar("T")
log = logging.getLogger("skitter.server")

EVERY_S = 1.0
#: Redis is away if a PING takes longer.
LATE_S = 2.0
#: If our own event loop was blocked, the answer may have arrived unread: time to read it.
UNREAD_S = 0.05
#: A connection may die silently: after this long, try a new one.
DEAD_S = 6.0


class UnderWay:
    """A block that ends with ServerUnreachable as soon as Redis is away. asyncio.Timeout would do,
    but costs more."""

    __slots__ = ("_before", "_is_ended", "_presence", "_task")

    def __init__(self, presence: Presence) -> None:
        self._presence, self._is_ended = presence, False

    def __enter__(self) -> None:
        presence = self._presence
        presence.check()
        task = asyncio.current_task(presence._loop)  # without one, it would ask for our pid
        assert task is not None
        self._task, self._before = task, task.cancelling()
        presence._calls.add(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._presence._calls.discard(self)
        if kind is asyncio.CancelledError and self._was_ended():
            raise ServerUnreachable(self._presence.away) from None

    def end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._task.cancel()

    def _was_ended(self) -> bool:
        """Whether `end`, and nothing else, cancelled it."""
        return self._is_ended and self._task.uncancel() <= self._before


@dataclass(slots=True)
class Presence:
    """Whether Redis is here or away, checked once for all calls, so that none waits to find out.

    When it goes away, calls in flight fail at once and say so; a timeout per call would also cut
    off long work.
    """

    server: Server
    away: str = ""  # what is wrong; empty: Redis is here
    _loop: asyncio.AbstractEventLoop | None = None
    _change: asyncio.Future[None] | None = None
    _calls: set[UnderWay] = field(default_factory=set)
    _since: float = 0.0  # when it went away

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            await cancel_all([watch])

    def check(self) -> None:
        """Raises ServerUnreachable while Redis is away."""
        if self.away:
            raise ServerUnreachable(self.away)

    async def through(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work. Raises ServerUnreachable as soon as Redis is away."""
        try:
            with UnderWay(self):
                return await work
        finally:
            work.close()  # if it never began

    async def pause(self, seconds: float) -> None:
        """Sleep; return early when Redis goes away or comes back."""
        await asyncio.wait({self._changing}, timeout=seconds)

    @property
    def _changing(self) -> asyncio.Future[None]:
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    def _turn(self, away: str) -> None:
        is_change = bool(away) != bool(self.away)
        self.away = away
        if is_change:
            self._log(away)
        if is_change and self._change is not None:
            self._change.set_result(None)
            self._change = None
        if away:
            for call in self._calls:
                call.end()

    def _log(self, away: str) -> None:
        """One line when it begins, one when it ends, with how long it was."""
        now = time.monotonic()
        if away:
            self._since = now
            log.warning("%s: %s", moment(time.time()), away)
        else:
            passed = duration(now - self._since)
            log.warning("%s: Redis is back after %s.", moment(time.time()), passed)

    async def _watch(self) -> None:
        while True:
            self._turn(await self._ask())
            await asyncio.sleep(EVERY_S)

    async def _ask(self) -> str:
        """Return what is wrong. If the answer is late, end other calls without waiting for it."""
        ping = asyncio.create_task(self.server.command("PING"))
        try:
            for limit_s in (LATE_S, UNREAD_S):
                await asyncio.wait({ping}, timeout=limit_s)
            if not ping.done():
                self._turn(self.away or f"{self.server.where} does not answer: check that it runs.")
                await asyncio.wait({ping}, timeout=DEAD_S)
            if not ping.done():
                return self.away
            await ping
        except SkitterError as error:
            return str(error)
        finally:
            await cancel_all([ping])
        return ""


#: We notice within this time that a job was purged and created again.
SAME_S = 2.0
MAX_JOBS = 100
#: Waiting offers per job; beyond that, clients have to push again.
MAX_WAITING = 20_000


@dataclass(slots=True)
class JobPushes:
    """The pushes to one job, one `add` at a time: a shard would let no second one pass."""

    frontier: Frontier
    presence: Presence
    born: str
    checked_at: float
    _waiting: list[tuple[Sequence[Offer], asyncio.Future[list[Added]]]] = field(
        default_factory=list
    )
    _count: int = 0
    _is_sending: bool = False
    _tasks: set[asyncio.Task[list[Added]]] = field(default_factory=set)

    def add(self, offers: Sequence[Offer]) -> Awaitable[list[Added]]:
        """Each offer's result. Raises Refusal while too many wait."""
        if self._count > MAX_WAITING:
            says = "URLs arrive faster than the frontier accepts them: push again later."
            raise Refusal(429, says, retry_after_s=1)
        self._count += len(offers)
        if not self._is_sending:
            self._is_sending = True
            return self._send(offers)
        future: asyncio.Future[list[Added]] = asyncio.get_running_loop().create_future()
        self._waiting.append((offers, future))
        return future

    async def _send(self, own: Sequence[Offer] = ()) -> list[Added]:
        """Send `own` with the waiting offers; return the results of `own`."""
        batch, self._waiting = self._waiting, []
        together = [*own, *chain.from_iterable(offers for offers, _ in batch)] if batch else own
        try:
            with UnderWay(self.presence):
                answers = await self.frontier.add_offers(together)
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            raise
        finally:
            self._count -= len(together)
            self._go_on()
        at = len(own)
        for offers, future in batch:
            if not future.done():  # done: its client has gone
                future.set_result(answers[at : at + len(offers)])
            at += len(offers)
        return answers[: len(own)]

    def _go_on(self) -> None:
        """Send the offers that collected meanwhile: they have no sender of their own."""
        if not self._waiting:
            self._is_sending = False
            return
        task = asyncio.create_task(self._send())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


@dataclass(slots=True)
class Pushes:
    """The open jobs, by name: while one `add` is in flight, others collect for the next."""

    server: Server
    presence: Presence
    _jobs: OrderedDict[str, JobPushes] = field(default_factory=OrderedDict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def to(self, job: str) -> JobPushes:
        """Raises JobMissing, and ServerUnreachable while Redis is away."""
        self.presence.check()
        known = self._jobs.get(job)
        if known and time.monotonic() - known.checked_at > SAME_S:
            known.checked_at = time.monotonic()
            if await self.presence.through(read_birth(known.frontier)) != known.born:
                self.forget(job)
                known = None
        if known is None:
            known = await self.presence.through(self._open(job))
        return known

    async def _open(self, job: str) -> JobPushes:
        async with self._opening:
            if job not in self._jobs:
                frontier = await open_job(self.server, job)
                born = await read_birth(frontier)
                self._jobs[job] = JobPushes(frontier, self.presence, born, time.monotonic())
            if len(self._jobs) > MAX_JOBS:
                self._jobs.popitem(last=False)
            return self._jobs[job]

    def forget(self, job: str) -> None:
        self._jobs.pop(job, None)
