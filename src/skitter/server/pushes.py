"""Pushes that come together go together: while one `add` is under way, others collect."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.frontier.admin.control import read_birth
from skitter.frontier.admin.jobs import open_job
from skitter.server.problems import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.offers import Offer
    from skitter.model import Added

#: A job that was purged and created again is noticed after this long.
SAME_S = 2.0
MOST_JOBS = 100
#: Between two calls for a job: a call costs as much CPU as three requests. The first push after a
#: pause does not wait.
GAP_S = 0.005
#: Offers of a job that may wait for their turn; beyond that, clients have to push again.
MOST_WAITING = 20_000


@dataclass(slots=True)
class JobPushes:
    """The pushes to one job, one `add` at a time."""

    frontier: Frontier
    born: str
    checked_at: float
    _waiting: list[tuple[Sequence[Offer], asyncio.Future[list[Added]]]] = field(
        default_factory=list
    )
    _count: int = 0
    _sending: asyncio.Task[None] | None = None
    _sent_at: float = 0.0

    async def add(self, offers: Sequence[Offer]) -> list[Added]:
        """What became of each. Raises Refusal while too many wait."""
        if self._count > MOST_WAITING:
            says = "more URLs arrive than the frontier takes in: push again later."
            raise Refusal(429, says, retry_after_s=1)
        future: asyncio.Future[list[Added]] = asyncio.get_running_loop().create_future()
        self._waiting.append((offers, future))
        self._count += len(offers)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return await future

    async def _send(self) -> None:
        while self._waiting:
            if (early_s := self._sent_at + GAP_S - time.monotonic()) > 0:
                await asyncio.sleep(early_s)
            self._sent_at = time.monotonic()
            batch, self._waiting = self._waiting, []
            together = [one for offers, _ in batch for one in offers]
            try:
                answers = await self.frontier.add_offers(together)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            else:
                at = 0
                for offers, future in batch:
                    if not future.done():  # else its client has gone
                        future.set_result(answers[at : at + len(offers)])
                    at += len(offers)
            self._count -= len(together)
        self._sending = None


@dataclass(slots=True)
class Pushes:
    """The jobs that are pushed to."""

    server: Server
    _jobs: OrderedDict[str, JobPushes] = field(default_factory=OrderedDict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def to(self, job: str) -> JobPushes:
        """Raises JobMissing."""
        known = self._jobs.get(job)
        if known and time.monotonic() - known.checked_at > SAME_S:
            known.checked_at = time.monotonic()
            if await read_birth(known.frontier) != known.born:
                self.forget(job)
                known = None
        return known or await self._open(job)

    async def _open(self, job: str) -> JobPushes:
        async with self._opening:
            if job not in self._jobs:
                frontier = await open_job(self.server, job)
                born = await read_birth(frontier)
                self._jobs[job] = JobPushes(frontier, born, time.monotonic())
            if len(self._jobs) > MOST_JOBS:
                self._jobs.popitem(last=False)
            return self._jobs[job]

    def forget(self, job: str) -> None:
        self._jobs.pop(job, None)
