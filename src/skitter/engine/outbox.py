"""Results on their way to the server. Each stays in the outbox until the server has it.

outbox = Outbox(pack)      # pack: some results -> a Batch of steps
outbox.add(result)         # from any thread
await outbox.flush()       # raises what a step raises; call it again to resume there
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from skitter.errors import InfrastructureError, JobMissing, SkitterError, UsageError

T = TypeVar("T")
Step = Callable[[], Awaitable[None]]
AT_ONCE = 200


class Batch:
    """The first results of an outbox, as steps. A step that succeeded is not repeated."""

    def __init__(self, size: int, steps: Iterable[Step]) -> None:
        self.size, self.steps = size, deque(steps)  # size: number of results


class Outbox(Generic[T]):
    """Results in order of arrival."""

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
