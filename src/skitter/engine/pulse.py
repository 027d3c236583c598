"""The pulse of a process: heartbeats, its log, and what it counted meanwhile."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.errors import SkitterError
from skitter.extras import RELEASE
from skitter.frontier.records.health import (
    MAX_COLUMNS,
    MAX_HANDLERS,
    Observed,
    column,
    count_handled,
    observe,
)
from skitter.frontier.records.metrics import record
from skitter.frontier.workers import Heartbeat, Vitals, beat, leave, log_lines
from skitter.model import TYPE
from skitter.observe.metrics import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.observe.logs import ClusterLog
    from skitter.observe.metrics import Batch


BEAT_S = 2.0
LINES_AT_ONCE = 200


@dataclass(slots=True, kw_only=True)
class Pulse:
    """Reports one worker or loader to the server every few seconds."""

    frontier: Frontier
    name: str
    kind: str
    logbook: ClusterLog
    vitals: Callable[[], Vitals]
    parent: int | None = None  # the process that supervises us
    on_orphaned: Callable[[], None] = lambda: None
    also: Callable[[Frontier], Awaitable[None]] | None = None  # what else to report
    pause_s: Callable[[], float] = lambda: BEAT_S
    began: float = field(default_factory=time.monotonic)
    handlers: tuple[str, ...] = ()
    spider: str = ""
    _started_at: float = 0.0
    _beating: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Beat forever, even while the server is away: those who need it report that."""
        while True:
            with suppress(SkitterError):
                await self.beat()
            if is_orphan(self.parent):
                self.on_orphaned()
            await asyncio.sleep(self.pause_s())

    async def beat(self) -> None:
        """Send the log, then the heartbeat. Cancellation leaves the call in flight: the server may
        have it already, and the next beat waits for it instead of repeating it."""
        if self._beating and not self._beating.done():
            with suppress(SkitterError):
                await asyncio.shield(self._beating)
        self._beating = asyncio.create_task(self._send())
        await asyncio.shield(self._beating)

    async def _send(self) -> None:
        lines = self.logbook.waiting()
        server_now = await self.frontier.server_time() if lines else 0.0
        for start in range(0, len(lines), LINES_AT_ONCE):
            some = lines[start : start + LINES_AT_ONCE]
            now = time.monotonic()
            entries = [line.entry(now=now, server_now=server_now) for line in some]
            await log_lines(self.frontier, self.name, entries)
            self.logbook.sent(some[-1])
        await self.frontier.fresh_options()
        now = await self.frontier.server_time()
        self._started_at = self._started_at or now - (time.monotonic() - self.began)
        await beat(
            self.frontier,
            Heartbeat(
                name=self.name,
                host=socket.gethostname(),
                pid=os.getpid(),
                kind=self.kind,
                started_at=self._started_at,
                at=now,
                memory_mb=memory_mb(),
                handlers=self.handlers,
                spider=self.spider,
                release=RELEASE,
                **msgspec.structs.asdict(self.vitals()),
            ),
        )
        if self.also:
            await self.also(self.frontier)

    async def end(self) -> None:
        """Beat once more, then sign off."""
        with suppress(SkitterError):
            await self.beat()
            await leave(self.frontier, self.name)


def is_orphan(parent: int | None) -> bool:
    """Whether the process that supervised us is gone."""
    return parent is not None and os.getppid() != parent


def memory_mb() -> float:
    """Peak memory of this process. On Linux, ru_maxrss counts what the parent had at the fork, so
    it is used only where there is no /proc."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used / (2**20 if sys.platform == "darwin" else 1024)
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def rss_mb() -> float:
    """Memory that this process has now; where there is no /proc, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return memory_mb()
    return pages * resource.getpagesize() / 2**20


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel until they end: Python 3.11's `asyncio.wait_for`, which handlers and database clients
    use, swallows a cancellation that arrives together with its result."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.1)


@dataclass(slots=True)
class Figures(Recorder):
    """What this process measured since its last successful heartbeat."""

    _unsent: Batch | None = None
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, frontier: Frontier) -> None:
        """What the server did not take is sent first the next time."""
        async with self._sending:
            if self._unsent is not None:
                await self._send(frontier, self._unsent)
            await self._send(frontier, self.take(frontier.client))

    async def _send(self, frontier: Frontier, batch: Batch) -> None:
        self._unsent = batch
        await record(frontier, batch)
        self._unsent = None


LONGEST_NAME: Final = 200
#: Between two heartbeats. Handlers have a dozen each; selectors may be made from data.
MAX_COUNTS: Final = 300


@dataclass(slots=True)
class Handled:
    """What the handlers of this process did since its last successful heartbeat."""

    default: str = ""  # the handler of requests that name none
    _counts: Counter[str] = field(default_factory=Counter)
    _unsent: dict[str, int] = field(default_factory=dict)

    def add_page(
        self, handler: str | None, *, items: int, links: int, selectors: Mapping[str, bool]
    ) -> None:
        """A page is done, and the server knows it. `selectors`: whether each matched."""
        name, counts = handler or self.default, self._counts
        counts[f"pages {name}"] += 1
        if items:
            counts[f"items {name}"] += items
        if links:
            counts[f"links {name}"] += links
        for selector, matched in selectors.items():
            tried = f"tried {name} {selector[:LONGEST_NAME]}"
            if tried in counts or len(counts) < MAX_COUNTS:
                counts[tried] += 1
                if matched:
                    counts[f"found {name} {selector[:LONGEST_NAME]}"] += 1

    def add_failed(self, handler: str) -> None:
        self._counts[f"failed {handler}"] += 1

    async def send(self, frontier: Frontier) -> None:
        """What the server did not take is sent first the next time. (Of two calls, the first may be
        repeated: zero stays zero, which is what counts.)"""
        if not self._unsent:
            self._unsent, self._counts = dict(self._counts), Counter()
        if self._unsent:
            await count_handled(frontier, self._unsent)
            self._unsent = {}


MAX_SHAPES = 500
#: Types whose falsy values still count as filled.
_NUMBERS = frozenset({int, float, bool})
_KINDS: dict[type, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "bool",
    list: "list",
    tuple: "list",
    dict: "object",
}

#: Field names, then the types of their values; None: empty.
Shape = tuple[Any, ...]


@dataclass(slots=True)
class _Found:
    """What one handler found."""

    pages: int = 0
    items: int = 0
    blocked: int = 0
    #: Items by type, field names and value types: one look-up per item, not per field.
    shapes: dict[tuple[str, Shape], int] = field(default_factory=dict)
    columns: Counter[str] = field(default_factory=Counter)

    def add(self, item: Mapping[str, Any]) -> None:
        if len(item) > MAX_COLUMNS:
            item = dict(islice(item.items(), MAX_COLUMNS))
        values = item.values()
        shape: Shape
        if all(values):
            shape = (*item, *map(type, values))
        else:
            shape = (*item, *[type(v) if v or type(v) in _NUMBERS else None for v in values])
        shapes, found = self.shapes, (str(item.get(TYPE, "")), shape)
        shapes[found] = shapes.get(found, 0) + 1
        if len(shapes) > MAX_SHAPES:
            self.unfold()

    def unfold(self) -> None:
        """Turn shapes into columns. Field names may be data, so only the first ones are kept."""
        for (item_type, shape), count in self.shapes.items():
            half = len(shape) // 2
            of = f"{item_type}." if item_type else ""
            for name, kind in zip(shape[:half], shape[half:], strict=True):
                if kind is not None:
                    key = column(f"{of}{name}", _KINDS.get(kind, kind.__name__))
                    if key in self.columns or len(self.columns) < MAX_COLUMNS:
                        self.columns[key] += count
        self.shapes.clear()

    def observed(self, handler: str) -> Observed:
        self.unfold()
        return Observed(handler, self.pages, self.items, self.blocked, dict(self.columns))


@dataclass(slots=True)
class FoundItems:
    """What this process found since its last successful heartbeat."""

    default: str = ""  # the handler of requests that name none
    _handlers: dict[str, _Found] = field(default_factory=dict)
    _unsent: list[Observed] = field(default_factory=list)

    def add_page(
        self, handler: str | None, items: Sequence[Mapping[str, Any]], *, unread: int = 0
    ) -> None:
        """A page is done, and the server knows it. Unread: items whose fields are unknown."""
        found = self._of(handler)
        found.pages += 1
        found.items += len(items) + unread
        for item in items:
            found.add(item)

    def add_blocked(self, handler: str | None) -> None:
        self._of(handler).blocked += 1

    def _of(self, handler: str | None) -> _Found:
        name = handler or self.default
        found = self._handlers.get(name)
        if found is None:
            found = _Found()
            if len(self._handlers) < MAX_HANDLERS:
                self._handlers[name] = found
        return found

    async def send(self, frontier: Frontier) -> None:
        """What the server did not take is sent first the next time."""
        if not self._unsent:
            found, self._handlers = self._handlers, {}
            self._unsent = [one.observed(name) for name, one in found.items()]
        if self._unsent:
            await observe(frontier, self._unsent)
            self._unsent = []
