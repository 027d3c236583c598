"""From the item stream to a sink: read, transform, write, and only then acknowledge."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from skitter.errors import SkitterError
from skitter.model import Result
from skitter.observe.logs import PAGE_URL, Spans
from skitter.sinks.base import LoadPace, LoadState, Retrier, RowsRefused, Stopped, ignore
from skitter.sinks.rows import is_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skitter.sinks.base import Sink

#: Takes an item; returns the item to store, None to drop it, or a list of several.
Transform: TypeAlias = Callable[[Any], Any]
OnRejected: TypeAlias = Callable[[Result, Exception], Awaitable[None] | None]

#: How often to tell the source that a slow transform is still running.
KEEP_S = 1.0


class ItemSource(Protocol):
    """Where items come from: the frontier's stream, read by a consumer group."""

    async def read(self, limit: int, wait_s: float) -> list[Result]:
        """Up to `limit` results, as soon as there are any; none after `wait_s`.

        An unacknowledged result is delivered again, to this loader or another.
        """

    async def acknowledge(
        self, stored: Sequence[Result], others: Sequence[Result], *, updated: int = 0
    ) -> None:
        """These are stored; the others were dropped or rejected. `updated`: how many rows were
        there before. Safe to repeat."""

    async def keep(self, results: Sequence[Result]) -> None:
        """These are in progress: other loaders should not claim them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadHooks:
    """What users and operators can plug in.

    `transform` may be a coroutine function; a plain one runs in a thread and may block. A result
    whose transform raises, or that the sink can never store, is passed unchanged to `on_rejected`,
    at least once, and then acknowledged: when the hook returns, it must have saved the result.
    `on_state` is called on changes only, `on_stored` for each batch: number of results, seconds.
    `is_over`, asked after each batch: nothing more will come, so the loader ends.
    """

    transform: Transform | None = None
    on_rejected: OnRejected = ignore
    on_state: Callable[[LoadState], None] = ignore
    on_stored: Callable[[int, float], Awaitable[None] | None] = ignore
    is_over: Callable[[], Awaitable[bool]] | None = None


async def load(
    source: ItemSource,
    sink: Sink,
    *,
    stop: asyncio.Event,
    hooks: LoadHooks | None = None,
    pace: LoadPace | None = None,
) -> int:
    """Load until `stop` is set or all is over, and return how many rows were written: a transform
    may make several from one result. Retry temporary errors forever; raise others.

    What is written gets acknowledged: if `stop` is set while the sink is away, or before slow
    transforms are done, the rest stays with the source.
    """
    hooks, pace = hooks or LoadHooks(), pace or LoadPace()
    retry = Retrier(stop, pace, hooks.on_state, sink.description)
    loader = _Loader(source, sink, retry, hooks, pace)
    while not stop.is_set():
        results = await loader.gather()
        if results:
            await loader.finish(results)
            if await loader.is_over():
                break
    return loader.written


@dataclass(slots=True)
class _Batch:
    """Rows to write, each with the result it came from."""

    results: list[Result] = field(default_factory=list)
    rows: list[tuple[Result, Result]] = field(default_factory=list)  # (origin, row)
    rejected: dict[str, tuple[Result, Exception]] = field(default_factory=dict)  # by stream id
    emptied: list[Result] = field(default_factory=list)  # to pass to sink.forget

    @classmethod
    def unchanged(cls, results: list[Result]) -> _Batch:
        """Without a transform."""
        rows = [(result, result) for result in results if not result.is_notice]
        return cls(results, rows, emptied=[result for result in results if result.is_notice])

    def take(self, origin: Result, made: Any) -> None:
        """Add what a transform returned for it, or the exception it raised."""
        self.results.append(origin)
        if isinstance(made, Exception):
            self.reject(origin, made)
            return
        rows = _rows(origin, made)
        if not rows:
            self.emptied.append(origin)
        self.rows += [(origin, row) for row in rows]

    def sorted(self) -> tuple[list[Result], list[Result]]:
        """The results that have rows, and the others."""
        stored = {_key(origin) for origin, _ in self.rows} - self.rejected.keys()
        return (
            [result for result in self.results if _key(result) in stored],
            [result for result in self.results if _key(result) not in stored],
        )

    def reject(self, origin: Result, error: Exception) -> None:
        self.rejected.setdefault(_key(origin), (origin, error))


@dataclass(slots=True)
class _Loader:
    source: ItemSource
    sink: Sink
    retry: Retrier
    hooks: LoadHooks
    pace: LoadPace
    written: int = 0
    spans: Spans = field(default_factory=Spans)
    rest: list[Result] = field(default_factory=list)  # read but not yet transformed

    async def gather(self) -> list[Result]:
        """The rest of the last batch; else a full batch, or what arrived within `linger_s`, or
        until no more came."""
        if self.rest:
            return self.rest
        results: list[Result] = []
        wait_s, deadline = self.pace.idle_s, 0.0
        try:
            while len(results) < self.pace.batch:
                limit = self.pace.batch - len(results)
                found = await self.retry(self._read, limit, wait_s)
                if not results:
                    deadline = time.monotonic() + self.pace.linger_s
                results += found
                wait_s = min(self.pace.quiet_s, deadline - time.monotonic())
                if not found or wait_s <= 0 or self.retry.stop.is_set():
                    break
        except Stopped:
            pass  # what was read can still be stored
        return results

    async def _read(self, limit: int, wait_s: float) -> list[Result]:
        """None if told to stop first: what a cancelled read was given comes back, to a later
        loader."""
        reading = asyncio.ensure_future(self.source.read(limit, wait_s))
        stopping = asyncio.ensure_future(self.retry.stop.wait())
        try:
            await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else []
        finally:
            reading.cancel()
            stopping.cancel()
            await asyncio.gather(reading, stopping, return_exceptions=True)

    async def finish(self, results: list[Result]) -> None:
        """Store and acknowledge those transformed within `transform_s`, and keep the rest; if told
        to stop halfway, leave them unacknowledged."""
        batch = await self._transform(results)
        self.rest = results[len(batch.results) :]
        began = time.perf_counter()
        try:
            with self.spans.load(len(batch.rows)):
                updated = await self._write(batch)
                if batch.emptied:
                    await self.retry(self.sink.forget, batch.emptied)
            took_s = time.perf_counter() - began
            for origin, error in batch.rejected.values():
                await self.retry(self._reject, origin, error)
            stored, others = batch.sorted()
            await self.retry(partial(self.source.acknowledge, updated=updated), stored, others)
        except Stopped:
            return
        told = self.hooks.on_stored(len(stored), took_s)
        if inspect.isawaitable(told):
            await told
        self.written += len(batch.rows)

    async def is_over(self) -> bool:
        try:
            return bool(self.hooks.is_over and await self.retry(self.hooks.is_over))
        except Stopped:
            return True

    async def _transform(self, results: list[Result]) -> _Batch:
        transform = self.hooks.transform
        if transform is None:
            return _Batch.unchanged(results)
        batch, some = _Batch(), _in_time(results, self.pace.transform_s)
        async with self._keeping(results):
            if inspect.iscoroutinefunction(transform):
                made = [(result, await _tried_async(transform, result)) for result in some]
                PAGE_URL.set("")
            else:
                made = await asyncio.to_thread(
                    lambda: [(result, _tried(transform, result)) for result in some]
                )
        for origin, one in made:
            batch.take(origin, one)
        return batch

    @asynccontextmanager
    async def _keeping(self, results: list[Result]) -> AsyncIterator[None]:
        """Keep other loaders from claiming the items of a slow transform."""
        if results is self.rest:
            await self._keep(results)
        keeping = asyncio.create_task(self._keep_on(results))
        try:
            yield
        finally:
            keeping.cancel()

    async def _keep_on(self, results: list[Result]) -> None:
        while True:
            await asyncio.sleep(KEEP_S)
            await self._keep(results)

    async def _keep(self, results: list[Result]) -> None:
        with suppress(SkitterError):  # then another loader repeats the work, which is harmless
            await self.source.keep(results)

    async def _write(self, batch: _Batch) -> int:
        """Returns how many rows were replaced."""
        while batch.rows:
            try:
                return await self.retry(self.sink.write, [row for _, row in batch.rows]) or 0
            except RowsRefused as error:
                reasons = {id(row): reason for row, reason in error.refused}
                before = len(batch.rows)
                for origin, row in batch.rows:
                    if id(row) in reasons:
                        batch.reject(origin, RowsRefused([(row, reasons[id(row)])]))
                batch.rows = [each for each in batch.rows if id(each[1]) not in reasons]
                if len(batch.rows) == before:
                    raise  # the sink names rows that we did not send
        return 0

    async def _reject(self, result: Result, error: Exception) -> None:
        kept = self.hooks.on_rejected(result, error)
        if inspect.isawaitable(kept):
            await kept


def _in_time(results: Sequence[Result], seconds: float) -> Iterator[Result]:
    """At least one, then more until the time is up."""
    deadline = time.monotonic() + seconds
    for result in results:
        yield result
        if time.monotonic() > deadline:
            return


def _tried(transform: Transform, result: Result) -> Any:
    if result.is_notice or is_file(result.item):
        return result.item
    PAGE_URL.set(result.url)
    try:
        return transform(result.item)
    except Exception as error:
        return error


async def _tried_async(transform: Transform, result: Result) -> Any:
    if result.is_notice or is_file(result.item):
        return result.item
    PAGE_URL.set(result.url)
    try:
        return await transform(result.item)
    except Exception as error:
        return error


def _rows(origin: Result, made: Any) -> list[Result]:
    if made is None:
        return []
    if not isinstance(made, list):
        return [replace(origin, item=made)]
    # Each with its own id, stable across deliveries: fingerprint-index-number.
    parent = f"{origin.fingerprint}-{origin.index}"
    return [
        replace(origin, fingerprint=parent, index=number, item=item)
        for number, item in enumerate(made)
    ]


def _key(result: Result) -> str:
    return result.id or f"{result.fingerprint}-{result.index}"
