"""Results on their way to the server, and links that it is known to have."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from skitter.errors import InfrastructureError, JobMissing, SkitterError, UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Hashable

    from skitter.model import Request


K = TypeVar("K")
UNKNOWN: Final = 2**31  # deeper than anything
#: How long results wait for a batch while pages are in flight, and how many are one.
LINGER_S: Final = 0.02
MANY: Final = 50
LONGEST_PAUSE_S: Final = 5.0


@dataclass(slots=True)
class LinkMemory(Generic[K]):
    """Keys of links (URLs, fingerprints) -> the least depth at which the frontier took them.

        memory = LinkMemory(lambda: frontier.epoch, lambda: frontier.keeps_depths)
        if key in memory.known: ...              # leave it out
        epoch = frontier.epoch                   # before the call that adds links
        memory.add([(key, depth)], epoch=epoch)  # after it was answered

    A link on every page costs a look-up, not a call. When full, the memory forgets the older half;
    in a new epoch, everything. A forgotten link is offered again, and the frontier knows it. One
    remembered but missing in the frontier would be lost.

    In a job that keeps depths, a page may turn out to be less deep after it is done, and so may its
    links. So only links one step from a seed are left out: there is no shorter way to them.

    One thread refreshes and adds; another may ask `key in memory` meanwhile.
    """

    epoch: Callable[[], Hashable] = lambda: None  # the frontier's
    keeps_depths: Callable[[], bool] = lambda: False
    size: int = 100_000
    _depths: dict[K, int] = field(default_factory=dict)  # oldest first
    _epoch: Hashable = None
    _deepest: int = UNKNOWN  # of links that may be left out

    def refresh(self) -> None:
        """Forget everything in a new epoch: the frontier may have lost what it had."""
        if self._epoch != (now := self.epoch()):
            self._depths.clear()  # first, or the other thread would find what is gone
            self._epoch = now
        self._deepest = 1 if self.keeps_depths() else UNKNOWN

    def __contains__(self, key: object) -> bool:
        """Whether a link may be left out, as of the last refresh."""
        depth = self._depths.get(key)  # type: ignore[arg-type]
        return depth is not None and depth <= self._deepest

    @property
    def known(self) -> Container[K]:
        """The links that may be left out now."""
        self.refresh()
        return self._depths if self._deepest == UNKNOWN else self  # a dict is fastest

    def has(self, key: K, *, depth: int) -> bool:
        """Whether the frontier has it, at this depth or less."""
        return self._depths.get(key, UNKNOWN) <= depth

    def has_any(self, key: K) -> bool:
        """Whether the frontier has it, at any depth."""
        return key in self._depths

    def add(self, links: Iterable[tuple[K, int]], *, epoch: Hashable) -> None:
        """Remember links that the frontier took in that epoch, with their depths."""
        self.refresh()
        if epoch != self._epoch:
            return
        depths = self._depths
        for key, depth in links:
            if depth < depths.get(key, UNKNOWN):
                depths[key] = depth
        if len(depths) > self.size:
            for key in list(islice(depths, len(depths) // 2)):
                del depths[key]


class RequestMemory(LinkMemory[str]):
    """A memory of plain GETs, by URL."""

    __slots__ = ()

    def split(self, links: list[Request]) -> tuple[list[Request], list[Request]]:
        """Links to offer, and links the frontier has at the same depth or less."""
        if not self.keeps_depths():
            return links, []
        self.refresh()
        parts: tuple[list[Request], list[Request]] = [], []
        for link in links:
            parts[link.is_plain and self.has(link.url, depth=link.depth)].append(link)
        return parts

    def add_requests(self, links: Iterable[Request], *, epoch: Hashable) -> None:
        self.add([(link.url, link.depth) for link in links if link.is_plain], epoch=epoch)


T = TypeVar("T")
Step = Callable[[], Awaitable[None]]
AT_ONCE = 200


class Batch:
    """The first results of an outbox, as steps. A step that succeeded is not repeated."""

    def __init__(self, size: int, steps: Iterable[Step]) -> None:
        self.size, self.steps = size, deque(steps)  # size: number of results


class Outbox(Generic[T]):
    """Results in order of arrival. Each stays until the server has it.

    outbox = Outbox(pack)      # pack: some results -> a Batch of steps
    outbox.add(result)         # from any thread
    await outbox.flush()       # raises what a step raises; call it again to resume there
    """

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self._batch: Batch | None = None
        self._sending = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, result: T) -> None:
        self._waiting.append(result)

    @property
    def waiting(self) -> list[T]:
        """Results not sent yet; safe to read from any thread."""
        return list(self._waiting.copy())  # copying is atomic; iterating is not

    def clear(self) -> None:
        """Drop all results: nobody takes them any more."""
        self._waiting.clear()
        self._batch = None

    async def flush(
        self, pack: Callable[[list[T]], Batch], *, on_sent: Callable[[], None] = lambda: None
    ) -> None:
        """Send everything, batch by batch."""
        async with self._sending:
            while self._waiting:
                await self._send_batch(pack)
                on_sent()

    async def _send_batch(self, pack: Callable[[list[T]], Batch]) -> None:
        batch = self._batch = self._batch or pack(self._first())
        while batch.steps:
            await batch.steps[0]()
            batch.steps.popleft()
        for _ in range(batch.size):
            self._waiting.popleft()
        self._batch = None

    def _first(self) -> list[T]:
        # By index: another thread may append meanwhile, which breaks an iterator.
        return [self._waiting[i] for i in range(min(len(self._waiting), AT_ONCE))]


@dataclass(slots=True)
class Line(Generic[T]):
    """Results for one shard: if it is away, they wait, and those for other shards do not."""

    pack: Callable[[list[T]], Batch]
    tell: Callable[[str], None]
    on_sent: Callable[[], None]
    outbox: Outbox[T] = field(default_factory=Outbox)
    some: asyncio.Event = field(default_factory=asyncio.Event)
    many: asyncio.Event = field(default_factory=asyncio.Event)
    _sent_at: float = field(default_factory=time.monotonic)  # or when there was nothing to send

    def __len__(self) -> int:
        return len(self.outbox)

    def add(self, result: T) -> None:
        self.outbox.add(result)
        if (waiting := len(self.outbox)) == 1:
            self._sent_at = time.monotonic()
        self.some.set()
        if waiting >= MANY:
            self.many.set()

    def kept(self, for_s: float) -> list[T]:
        return self.outbox.waiting if time.monotonic() - self._sent_at > for_s else []

    def _note_sent(self) -> None:
        self._sent_at = time.monotonic()
        self.on_sent()

    async def run(self) -> None:
        """Send forever: when there are many, or when the first has waited a little."""
        while True:
            await self.some.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    await self.many.wait()
            await self.flush()

    async def flush(self) -> None:
        """Send everything; while the server is away or full, wait and retry."""
        pause_s = 0.1
        while len(self.outbox):
            try:
                await self.outbox.flush(self.pack, on_sent=self._note_sent)
            except JobMissing:  # nobody takes them any more
                self.outbox.clear()
                raise
            except SkitterError as error:
                if not error.retryable:
                    raise
                self.tell(f"{error} Results are kept; trying again.")
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
        self.some.clear()
        self.many.clear()


async def send_each(
    pages: list[T],
    send: Callable[[list[T]], Awaitable[None]],
    refuse: Callable[[T, Exception], Awaitable[None]],
) -> None:
    """Send all pages at once. If the server refuses them for good, send them one by one: `refuse`
    gets those still refused, and the others are done. Answered pages leave the list."""
    try:
        if pages:
            await send(pages)
    except Exception as error:
        if not may_be_about_a_page(error):
            raise
    else:
        pages.clear()
    while pages:
        try:
            await send(pages[:1])
        except Exception as error:
            if not may_be_about_a_page(error):
                raise
            await refuse(pages[0], error)
        del pages[0]


def may_be_about_a_page(error: Exception) -> bool:
    """Not if the server is away or full, or the job is gone: that concerns all pages."""
    if isinstance(error, SkitterError):
        is_ours = isinstance(error, UsageError) and not isinstance(error, JobMissing)
        return is_ours or type(error) is InfrastructureError  # an unknown answer
    return True
