"""What came of attempts, handed in in batches; and which links were handed in lately."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from skitter.errors import SkitterError
from skitter.frontier.items import count, set_aside
from skitter.model import Ended

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.items import Aside
    from skitter.model import Completion, Failure, Request
    from skitter.worker.attempt import Ending

BATCH = 50
LINGER_S = 0.005
LONGEST_PAUSE_S = 5.0


@dataclass(slots=True)
class LinkMemory:
    """Links that were lately added, so that a link on every page costs a look-up and no call.

    When it is full, the older half is forgotten; in another epoch, all. A link that is forgotten
    is offered again, and the frontier knows it. One that is remembered and not there is lost.
    """

    epoch: Callable[[], Hashable] = lambda: None  # the frontier's
    size: int = 100_000
    _urls: dict[str, None] = field(default_factory=dict)  # of plain GETs, oldest first
    _epoch: Hashable = None

    @property
    def urls(self) -> dict[str, None]:
        """Those that the frontier has for certain."""
        if self._epoch != (now := self.epoch()):
            self._epoch = now
            self._urls.clear()
        return self._urls

    def add(self, links: Iterable[Request], *, epoch: Hashable = None) -> None:
        """Remember what was handed in, and answered, in that epoch."""
        urls = self.urls
        if epoch != self._epoch:
            return
        for one in links:
            if one.is_plain:
                urls[one.url] = None
        if len(urls) > self.size:
            for url in list(islice(urls, len(urls) // 2)):
                del urls[url]


@dataclass(slots=True)
class Tally:
    """What this worker did, for its heartbeat."""

    pages: int = 0
    errors: int = 0
    late: int = 0
    rejected: int = 0


@dataclass(slots=True)
class _Batch:
    """Endings on their way to the server, sorted by verb; what is handed in leaves it."""

    size: int
    done: list[Completion]
    retries: list[Failure]
    graves: list[Failure]
    counts: dict[str, int]
    aside: list[Aside]

    @classmethod
    def of(cls, waiting: Iterable[Ending]) -> _Batch:
        endings = list(islice(waiting, 4 * BATCH))
        return cls(
            size=len(endings),
            done=[one.done for one in endings if one.done],
            retries=[one.retry for one in endings if one.retry],
            graves=[one.bury for one in endings if one.bury],
            counts={
                "blocked": sum(one.blocked for one in endings),
                "skipped": sum(bool(one.skipped) for one in endings),
            },
            aside=[aside for one in endings for aside in one.aside],
        )


@dataclass(slots=True)
class Endings:
    """A buffer of endings. Nothing leaves it before the server has it."""

    frontier: Frontier
    memory: LinkMemory
    log: Callable[[str, str], None]  # level, text
    on_handed_in: Callable[[], None] = lambda: None
    tally: Tally = field(default_factory=Tally)
    _waiting: deque[Ending] = field(default_factory=deque)
    _batch: _Batch | None = None  # the first of those that wait, handed in in part
    _handing_in: asyncio.Lock = field(default_factory=asyncio.Lock)
    _some: asyncio.Event = field(default_factory=asyncio.Event)
    _many: asyncio.Event = field(default_factory=asyncio.Event)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ending: Ending) -> None:
        self._waiting.append(ending)
        self._some.set()
        if len(self._waiting) >= BATCH:
            self._many.set()

    async def run(self) -> None:
        """Hand in for ever: when there are many, or when the first has waited a little."""
        while True:
            await self._some.wait()
            try:
                async with asyncio.timeout(LINGER_S):
                    await self._many.wait()
            except TimeoutError:
                pass
            await self.flush()

    async def flush(self) -> None:
        """Hand in all there are; while the server is away or full, wait and try again."""
        async with self._handing_in:
            await self._flush()

    async def _flush(self) -> None:
        pause_s = 0.1
        while self._waiting:
            batch = self._batch = self._batch or _Batch.of(self._waiting)
            try:
                await self._hand_in(batch)
            except SkitterError as error:
                if not error.retryable:
                    raise
                self.log("warning", f"{error} Results are kept; trying again.")
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
                continue
            for _ in range(batch.size):
                self._waiting.popleft()
            self._batch = None
            self.on_handed_in()
        self._some.clear()
        self._many.clear()

    async def _hand_in(self, batch: _Batch) -> None:
        """Part by part; what was answered leaves the batch, and is not handed in again."""
        if batch.done:
            epoch = self.frontier.epoch
            self._note(batch.done, await self.frontier.complete(batch.done), epoch)
            batch.done = []
        if batch.retries:
            await self.frontier.retry(batch.retries)
            batch.retries = self._note_failures(batch.retries)
        if batch.graves:
            await self.frontier.bury(batch.graves)
            batch.graves = self._note_failures(batch.graves)
        await count(self.frontier, **batch.counts)
        batch.counts = {}
        while batch.aside:
            await set_aside(self.frontier, batch.aside[0])
            self._note_aside(batch.aside.pop(0))

    def _note_failures(self, failures: list[Failure]) -> list[Failure]:
        """Those that are left: none."""
        self.tally.errors += len(failures)
        for failure in failures:
            self.log("warning", f"{failure.lease.url}: {failure.error}")
        return []

    def _note_aside(self, one: Aside) -> None:
        self.tally.rejected += 1
        level = "warning" if one.field else "info"  # a hook of the user's dropped it
        self.log(level, f"an item of {one.url} was set aside: {one.why}")

    def _note(self, done: list[Completion], answers: list[Ended], epoch: Hashable) -> None:
        for completion, answer in zip(done, answers, strict=True):
            if answer is Ended.DONE:
                self.tally.pages += 1
                self.memory.add(completion.links, epoch=epoch)
            else:
                self.tally.late += 1
                self.log("warning", f"{completion.lease.url}: too late, somebody else has it")
