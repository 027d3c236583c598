"""Runs a store on its own thread: the event loop never waits for a disk or a database."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar, TypeVarTuple

from skitter.sinks.base import Prunable, Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from skitter.model import Result

T = TypeVar("T")
S = TypeVar("S", bound=Store)
Ts = TypeVarTuple("Ts")


class ThreadedSink(Generic[S]):
    """A sink that passes each call to its store, one at a time, on one thread.

    A cancelled call still finishes on that thread, and `close` runs after it: a store is never
    closed during a write.
    """

    def __init__(self, store: S, executor: ThreadPoolExecutor) -> None:
        self.store = store
        self._executor = executor

    @property
    def description(self) -> str:
        return self.store.description

    async def write(self, rows: Sequence[Result]) -> int | None:
        return await self.run(self.store.write, rows)

    async def forget(self, pages: Sequence[Result]) -> None:
        if isinstance(self.store, Prunable) and self.store.prunes:
            await self.run(self.store.forget, pages)

    async def close(self) -> None:
        await self.run(self.store.close)

    async def run(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run any work on the store, in turn."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, work, *args)


@asynccontextmanager
async def open_on_thread(open_store: Callable[[], S]) -> AsyncIterator[ThreadedSink[S]]:
    """Open a store on its own thread; close it at the end."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="skitter-sink")
    opening = executor.submit(open_store)
    try:
        sink = ThreadedSink(await asyncio.wrap_future(opening), executor)
        try:
            yield sink
        finally:
            await sink.close()
    except asyncio.CancelledError:
        executor.submit(lambda: opening.result().close())  # closing twice does nothing
        raise
    finally:
        executor.shutdown(wait=False)
