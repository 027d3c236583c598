"""From the stream of items to a sink: read, transform, write, and only then acknowledge."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from skitter.model import Result
from skitter.sinks.base import RowsRefused
from skitter.sinks.patience import LoadState, Pace, Patience, Stopped, ignore

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from skitter.sinks.base import Sink

#: An item in; the item to store, None to drop it, or a list of several, out.
Transform: TypeAlias = Callable[[Any], Any]
OnRejected: TypeAlias = Callable[[Result, Exception], Awaitable[None] | None]


class ItemSource(Protocol):
    """Where items come from; the frontier's stream behind a consumer group."""

    async def read(self, limit: int, wait_s: float) -> list[Result]:
        """Up to `limit` results, as soon as there is one; none after `wait_s`.

        A result that is not acknowledged comes again, to this loader or another.
        """

    async def acknowledge(self, results: Sequence[Result]) -> None:
        """These are stored. Safe to repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What the user and the operator have to say.

    `transform` may be a coroutine function. A result whose transform raises, or that the sink can
    never store, goes to `on_rejected` as it came, at least once, and is then acknowledged: the
    hook must have put it aside when it returns. `on_state` hears of changes only.
    """

    transform: Transform | None = None
    on_rejected: OnRejected = ignore
    on_state: Callable[[LoadState], None] = ignore


@dataclass(slots=True)
class Loaded:
    """What a loader did; kept up to date while it works."""

    read: int = 0
    written: int = 0  # rows; a transform may make several of one result
    dropped: int = 0
    rejected: int = 0
    acknowledged: int = 0


async def load(
    source: ItemSource,
    sink: Sink,
    *,
    stop: asyncio.Event,
    hooks: Hooks | None = None,
    pace: Pace | None = None,
) -> Loaded:
    """Load until `stop` is set. Errors that may pass are waited out, for ever; others are raised.

    Each batch ends wholly acknowledged or not at all: when `stop` comes while the sink is away,
    the batch stays with the source.
    """
    hooks, pace = hooks or Hooks(), pace or Pace()
    insist = Patience(stop, pace, hooks.on_state, sink.description)
    loader = _Loader(source, sink, insist, hooks, pace)
    while not stop.is_set():
        results = await loader.gather()
        if results:
            await loader.finish(results)
    return loader.loaded


@dataclass(slots=True)
class _Batch:
    """Rows on their way, each with the result that it came from."""

    results: list[Result]
    rows: list[tuple[Result, Result]] = field(default_factory=list)  # (origin, row)
    rejected: dict[str, tuple[Result, Exception]] = field(default_factory=dict)  # by stream id
    dropped: int = 0

    def reject(self, origin: Result, error: Exception) -> None:
        self.rejected.setdefault(_key(origin), (origin, error))


@dataclass(slots=True)
class _Loader:
    source: ItemSource
    sink: Sink
    insist: Patience
    hooks: Hooks
    pace: Pace
    loaded: Loaded = field(default_factory=Loaded)

    async def gather(self) -> list[Result]:
        """A full batch, or what came within the linger."""
        results: list[Result] = []
        wait_s, deadline = self.pace.idle_s, 0.0
        try:
            while len(results) < self.pace.batch:
                limit = self.pace.batch - len(results)
                found = await self.insist(self.source.read, limit, wait_s)
                if found and not results:
                    deadline = time.monotonic() + self.pace.linger_s
                results += found
                wait_s = deadline - time.monotonic()
                if wait_s <= 0 or self.insist.stop.is_set():
                    break
        except Stopped:
            pass  # what is here can still be stored
        self.loaded.read += len(results)
        return results

    async def finish(self, results: list[Result]) -> None:
        """Store and acknowledge a batch; told to stop in the middle, leave it as it came."""
        batch = _Batch(results)
        for result in results:
            await self._transform(result, batch)
        try:
            await self._write(batch)
            for origin, error in batch.rejected.values():
                await self.insist(self._reject, origin, error)
            await self.insist(self.source.acknowledge, results)
        except Stopped:
            return
        self.loaded.written += len(batch.rows)
        self.loaded.dropped += batch.dropped
        self.loaded.rejected += len(batch.rejected)
        self.loaded.acknowledged += len(results)

    async def _transform(self, result: Result, batch: _Batch) -> None:
        try:
            items = await self._items_of(result)
        except Exception as error:
            batch.reject(result, error)
            return
        batch.dropped += not items
        batch.rows += [(result, item) for item in items]

    async def _items_of(self, result: Result) -> list[Result]:
        if self.hooks.transform is None:
            return [result]
        made = self.hooks.transform(result.item)
        if inspect.isawaitable(made):
            made = await made
        if made is None:
            return []
        if not isinstance(made, list):
            return [replace(result, item=made)]
        # Ids of their own, the same at each delivery: fingerprint-index-number.
        parent = f"{result.fingerprint}-{result.index}"
        return [
            replace(result, fingerprint=parent, index=number, item=item)
            for number, item in enumerate(made)
        ]

    async def _write(self, batch: _Batch) -> None:
        while batch.rows:
            try:
                await self.insist(self.sink.write, [row for _, row in batch.rows])
                return
            except RowsRefused as error:
                reasons = {id(row): reason for row, reason in error.refused}
                before = len(batch.rows)
                for origin, row in batch.rows:
                    if id(row) in reasons:
                        batch.reject(origin, RowsRefused([(row, reasons[id(row)])]))
                batch.rows = [each for each in batch.rows if id(each[1]) not in reasons]
                if len(batch.rows) == before:
                    raise  # the sink names rows that we did not send

    async def _reject(self, result: Result, error: Exception) -> None:
        kept = self.hooks.on_rejected(result, error)
        if inspect.isawaitable(kept):
            await kept


def _key(result: Result) -> str:
    return result.id or f"{result.fingerprint}-{result.index}"
