"""Batches pushes: while one `add` is in flight, others collect for the next."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from skitter.frontier.admin.control import read_birth
from skitter.frontier.admin.jobs import open_job
from skitter.server.presence import UnderWay
from skitter.server.problems import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.offers import Offer
    from skitter.model import Added
    from skitter.server.presence import Presence

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
    """The open jobs, by name."""

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
