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


@dataclass(slots=True)
class Presence:
    """Here or away. What is under way when Redis goes away ends at once, with an error that says
    so: a limit of time on each call would be a limit on long work, too."""

    server: Server
    away: str = ""  # what is wrong; empty: it is here
    _change: asyncio.Future[None] | None = None
    _limits: set[asyncio.Timeout] = field(default_factory=set)  # of the calls under way

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
        limit = asyncio.timeout(None)  # of no time, until it is set
        self._limits.add(limit)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise ServerUnreachable(self.away) from None
        finally:
            self._limits.discard(limit)

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
            for limit in self._limits:
                if not limit.expired():
                    limit.reschedule(0)

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
