"""What came of attempts, handed in in batches; and which links were handed in lately."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from skitter.errors import InfrastructureError, JobMissing, SkitterError, UsageError, shorten
from skitter.frontier.admin.items import count, reject_items
from skitter.frontier.completions import Sealed, seal
from skitter.frontier.wire import NOT_PLAIN
from skitter.model import Completion, Ended, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from skitter.engine.memory import RequestMemory
    from skitter.frontier.admin.items import RejectedItem
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease
    from skitter.settings import Layout
    from skitter.worker.attempt import Ending
    from skitter.worker.departures import Departures

BATCH = 50
BATCH_BYTES = 8 * 2**20
LINGER_S = 0.005
LONGEST_PAUSE_S = 5.0
MOST_UNDECLARED = 100  # names of fields may be data


@dataclass(slots=True)
class Tally:
    """What this worker did, for its heartbeat."""

    pages: int = 0
    errors: int = 0
    late: int = 0
    rejected: int = 0


class _Page(NamedTuple):
    """A page that is done, and what is sent of it."""

    completion: Completion
    sealed: Sealed


@dataclass(slots=True)
class _Batch:
    """Delivery on their way to the server, sorted by verb; what is handed in leaves it."""

    size: int = 0
    size_bytes: int = 0
    done: list[_Page] = field(default_factory=list)
    retries: list[Failure] = field(default_factory=list)
    graves: list[Failure] = field(default_factory=list)
    early: list[Lease] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    aside: list[RejectedItem] = field(default_factory=list)
    exceeded: list[tuple[str, str]] = field(default_factory=list)  # URL, what was left out
    undeclared: set[str] = field(default_factory=set)  # fields that were left out

    @property
    def leases(self) -> list[Lease]:
        done = [page.completion.lease for page in self.done]
        return done + [one.lease for one in self.retries + self.graves] + self.early

    @classmethod
    def of(cls, waiting: Iterable[Ending], layout: Layout) -> _Batch:
        """The first of those that wait: some hundreds, or some megabytes."""
        batch = cls()
        for ending in islice(waiting, 4 * BATCH):
            batch._add(ending, layout)
            if batch.size_bytes > BATCH_BYTES:
                break
        return batch

    def _add(self, ending: Ending, layout: Layout) -> None:
        self.size += 1
        if ending.done:
            self._seal(ending.done, layout)
        self.early += [ending.early] if ending.early else []
        self.retries += [ending.retry] if ending.retry else []
        self.graves += [ending.bury] if ending.bury else []
        self.counts["blocked"] += ending.blocked
        self.counts["skipped"] += bool(ending.skipped)
        self.counts["capped"] += bool(ending.exceeded)
        self.counts["undeclared"] += sum(ending.undeclared.values())
        self.undeclared |= ending.undeclared.keys()
        self.aside += ending.aside
        if ending.exceeded and ending.done:
            self.exceeded.append((ending.done.lease.url, ending.exceeded))

    def _seal(self, completion: Completion, layout: Layout) -> None:
        """What cannot be sent is the end of its page, and of no other."""
        try:
            sealed = seal(completion, layout)
        except (UsageError, *NOT_PLAIN) as error:
            self.bury(completion.lease, error)
        else:
            self.done.append(_Page(completion, sealed))
            self.size_bytes += sealed.size_bytes

    def bury(self, lease: Lease, error: Exception) -> None:
        reason = f"what it brought cannot be stored: {error}"
        self.graves.append(Failure(lease=lease, error=reason))


@dataclass(slots=True)
class Delivery:
    """A buffer of endings. Nothing leaves it before the server has it."""

    frontier: Frontier
    memory: RequestMemory
    log: Callable[[str, str], None]  # level, text
    departures: Departures | None = None
    on_handed_in: Callable[[], None] = lambda: None
    tally: Tally = field(default_factory=Tally)
    _undeclared: set[str] = field(default_factory=set)  # fields that the log has named
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
        pause_s, layout = 0.1, self.frontier.layout
        while self._waiting:
            batch = self._batch = self._batch or _Batch.of(self._waiting, layout)
            try:
                await self._hand_in(batch)
            except JobMissing:  # nobody takes them any more
                self._waiting.clear()
                self._batch = None
                raise
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
        await self.tell_departures(batch.leases)
        await self._hand_in_done(batch)
        if batch.early:
            await self.frontier.release(batch.early)
            batch.early.clear()
        if batch.retries:
            await self.frontier.retry(batch.retries)
            batch.retries = self._note_failures(batch.retries)
        if batch.graves:
            await self.frontier.bury(batch.graves)
            batch.graves = self._note_failures(batch.graves)
        await count(self.frontier, **batch.counts)
        batch.counts.clear()
        while batch.aside:
            await self._set_aside(batch.aside[:BATCH])
            del batch.aside[:BATCH]
        for url, what in batch.exceeded:
            self.log("warning", f"{url}: {what}")
        batch.exceeded.clear()
        self._tell_undeclared(batch.undeclared)
        batch.undeclared = set()

    async def tell_departures(self, leases: Iterable[Lease]) -> None:
        """Before a lease ends: the next turn of its host counts from when its request left."""
        if self.departures is not None:
            await self.departures.tell(leases)

    async def _hand_in_done(self, batch: _Batch) -> None:
        """All at once. If the server refuses that for good, one by one: a page that it still does
        not take is a dead letter, and the others are done."""
        try:
            if batch.done:
                await self._complete(batch.done)
        except Exception as error:
            if not _may_be_about_a_page(error):
                raise
            await self._complete_each(batch)
        batch.done = []

    async def _complete_each(self, batch: _Batch) -> None:
        while batch.done:
            try:
                await self._complete(batch.done[:1])
            except Exception as error:
                if not _may_be_about_a_page(error):
                    raise
                batch.bury(batch.done[0].completion.lease, error)
            del batch.done[0]

    async def _complete(self, pages: list[_Page]) -> None:
        epoch = self.frontier.epoch
        answers = await self.frontier.complete_sealed([page.sealed for page in pages])
        self._note([page.completion for page in pages], answers, epoch)

    async def _set_aside(self, asides: list[RejectedItem]) -> None:
        try:
            await reject_items(self.frontier, *asides)
        except Exception as error:
            if not _may_be_about_a_page(error):
                raise
            self.log("error", f"{len(asides)} items could not be kept: {error}")
        for one in asides:
            self._note_aside(one)

    def _note_failures(self, failures: list[Failure]) -> list[Failure]:
        """Those that are left: none."""
        self.tally.errors += len(failures)
        for failure in failures:
            self.log("warning", f"{failure.lease.url}: {failure.error}")
        return []

    def _note_aside(self, one: RejectedItem) -> None:
        self.tally.rejected += 1
        level = "warning" if one.field else "info"  # a hook of the user's dropped it
        self.log(level, f"an item of {one.url} was rejected: {one.why}")

    def _tell_undeclared(self, fields: set[str]) -> None:
        """Each field once: it is in every item, as a rule."""
        for name in sorted(fields - self._undeclared)[: MOST_UNDECLARED - len(self._undeclared)]:
            self._undeclared.add(name)
            self.log(
                "warning",
                f"items have a field {shorten(name)!r} that their type does not declare: it is "
                "left out. Declare it, or do not yield it.",
            )

    def _note(self, done: list[Completion], answers: list[Ended], epoch: Hashable) -> None:
        for completion, answer in zip(done, answers, strict=True):
            if answer is Ended.DONE:
                self.tally.pages += 1
                self.memory.add_requests(completion.links, epoch=epoch)
            else:
                self.tally.late += 1
                self.log("warning", f"{completion.lease.url}: too late, somebody else has it")


def _may_be_about_a_page(error: Exception) -> bool:
    """Not if the server is away or full, nor if the job is gone: then it is about all."""
    if isinstance(error, SkitterError):
        is_ours = isinstance(error, UsageError) and not isinstance(error, JobMissing)
        return is_ours or type(error) is InfrastructureError  # an answer that nobody knows
    return True
