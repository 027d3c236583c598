"""Whether Redis answers: asked once for all calls, so that none has to wait to find out."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.engine.pulse import cancel_all
from skitter.errors import ServerUnreachable, SkitterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from skitter.frontier.connection import Server

T = TypeVar("T")

EVERY_S = 1.0
#: Redis is away if a PING takes longer than that.
LATE_S = 2.0
#: If we were held up ourselves, the answer may be here already, unread.
UNREAD_S = 0.05
#: A connection may be dead without a word: after this long, a new one is tried.
DEAD_S = 6.0


class UnderWay:
    """A call that can be ended from elsewhere: asyncio.Timeout would do, and costs more."""

    __slots__ = ("_before", "_is_ended", "_task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._before, self._is_ended = task, task.cancelling(), False

    def end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._task.cancel()

    def was_ended(self) -> bool:
        """Whether that is why it was cancelled, and nothing else."""
        return self._is_ended and self._task.uncancel() <= self._before


@dataclass(slots=True)
class Presence:
    """Here or away. What is under way when Redis goes away ends at once, with an error that says
    so: a limit of time on each call would be a limit on long work, too."""

    server: Server
    away: str = ""  # what is wrong; empty: it is here
    _change: asyncio.Future[None] | None = None
    _calls: set[UnderWay] = field(default_factory=set)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            await cancel_all([watch])

    def check(self) -> None:
        """Raises ServerUnreachable while it is away."""
        if self.away:
            raise ServerUnreachable(self.away)

    async def through(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work gives. Raises ServerUnreachable as soon as Redis is away."""
        if self.away:
            work.close()
            self.check()
        call = UnderWay()
        self._calls.add(call)
        try:
            return await work
        except asyncio.CancelledError:
            if call.was_ended():
                raise ServerUnreachable(self.away) from None
            raise
        finally:
            self._calls.discard(call)

    async def pause(self, seconds: float) -> None:
        """At most so long: it is over when Redis goes or comes."""
        await asyncio.wait({self._changing}, timeout=seconds)

    @property
    def _changing(self) -> asyncio.Future[None]:
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    def _turn(self, away: str) -> None:
        is_change = bool(away) != bool(self.away)
        self.away = away
        if is_change and self._change is not None:
            self._change.set_result(None)
            self._change = None
        if away:
            for call in self._calls:
                call.end()

    async def _watch(self) -> None:
        while True:
            self._turn(await self._ask())
            await asyncio.sleep(EVERY_S)

    async def _ask(self) -> str:
        """What is wrong. While the answer is late, others hear of it."""
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
