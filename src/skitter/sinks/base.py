"""What a sink guarantees; stores on their own thread; what is tried again.

SkitterError
├── UsageError
│   ├── BadSink          items cannot be written there
│   ├── MissingExtra     an optional library is not installed; names the command
│   └── RowsRefused      these rows can never be stored there; none of the batch was written
└── InfrastructureError
    ├── SinkAway         not accepting rows now; the same call may succeed later
    └── SinkBusy         another process is writing this file
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from random import random
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    ClassVar,
    Generic,
    Protocol,
    TypeVar,
    TypeVarTuple,
    runtime_checkable,
)

import msgspec

from skitter.errors import BadOption, InfrastructureError, SkitterError, UsageError, shorten
from skitter.model import Result
from skitter.sinks.columns import Kind, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from skitter.sinks.comparison import Change, Noise


class Sink(Protocol):
    """Where items go."""

    @property
    def description(self) -> str:
        """What and where it is, without a password."""

    async def write(self, rows: Sequence[Result]) -> int | None:
        """Store the rows; return once they would survive a power cut.

        A row is identified by (job, fingerprint, index): writing it again updates it, unless it is
        of an earlier visit. Returns how many stored rows it replaced, if it knows. If this raises,
        some of the rows may have been stored: write the same rows again.
        """

    async def forget(self, pages: Sequence[Result]) -> None:
        """Remove the rows of earlier visits to these pages, if this sink removes rows at all: the
        latest visit has nothing to store."""

    async def close(self) -> None:
        """Finish and close the files."""


class Store(Protocol):
    """A sink without asyncio. It may block: it runs on its own thread.

    Every module of this package provides one, and so does another package's entry point, which
    is called with the address or path as typed by the user: `MySink(dsn, job=job)`.
    """

    @property
    def description(self) -> str:
        """What and where it is, without a password."""

    def write(self, results: Sequence[Result]) -> int | None:
        """As `Sink.write`. Raise SinkAway to be retried, RowsRefused for rows that can never be
        stored; anything else ends the loader."""

    def close(self) -> None:
        """Release everything; also called after an error, and possibly twice."""


@runtime_checkable
class Prunable(Protocol):
    """A store that can remove rows."""

    prunes: bool  # when a page is visited again, remove the rows of earlier visits

    def forget(self, pages: Sequence[Result]) -> None:
        """As `Sink.forget`: remove everything stored for these pages."""


@runtime_checkable
class Watching(Protocol):
    """A store that notes what later visits changed."""

    noise: Noise  # what it does not note
    changes: int  # how many entries of the job there are

    def count_changes(self) -> int:
        """Look again: others may have noted some."""

    def read_changes(
        self, *, after: int = 0, before: int | None = None, since: str = "", limit: int = 1000
    ) -> list[Change]:
        """Oldest first, after a number, since a time; before a number, newest first."""


@runtime_checkable
class Clearable(Protocol):
    """A store that knows its rows, and can start over."""

    def count(self) -> int:
        """How many rows of the job there are."""

    def clear(self, *, drop: bool = False) -> int:
        """Remove the rows of the job, and nobody else's; return how many there were. `drop`: and
        their table, if it is the job's alone."""


class Folder(Protocol):
    """A folder of files, to which rows are added from a database; `of(dsn)` makes it."""

    @property
    def every_s(self) -> float | None:
        """How often that is done while a loader runs; None: only at the end."""

    def check(self) -> None:
        """Raise BadSink, as far as can be known before there are rows."""

    async def add(self, database: str, *, job: str) -> int:
        """Add what it lacks, and return how much; killed at any moment, the next call goes on."""


class Row(msgspec.Struct, frozen=True):
    """One item as every sink stores it."""

    id: str  # fingerprint-index
    url: str
    fetched_at: datetime
    fields: dict[str, Any]
    json: bytes  # the URL and the fields
    result: Result

    @property
    def values(self) -> dict[str, Any]:
        """All columns, for a file."""
        own = {"_id": self.id, "_url": self.url, "_fetched_at": self.fetched_at}
        return own | self.fields

    @property
    def line(self) -> bytes:
        """The whole row as JSON, without a newline."""
        own = {"_id": self.id, "_url": self.url, "_fetched_at": text_of(self.fetched_at)}
        return msgspec.json.encode(own | _without_nulls(self.fields))


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """Databases do not distinguish null from a missing field, and JSON has no NaN: leaving them out
    makes a file written by `--out` equal to an exported one."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }


class FileFormat(ABC):
    """A file written in one go from the rows of a database."""

    #: How such a file begins; a file that begins differently is not overwritten.
    lead: ClassVar[bytes] = b""

    @abstractmethod
    def __init__(self, file: BinaryIO, columns: Mapping[str, Kind], *, safe: bool) -> None:
        """`columns`: all of them, `_id`, `_url` and `_fetched_at` first. `safe`: escape text that a
        spreadsheet would run as a formula."""

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None:  # noqa: B027  most formats have no trailer
        """Write the end of the file, without closing it."""


class BadSink(UsageError):
    """Items cannot be written there."""


class MissingExtra(UsageError):
    """An optional library is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        from skitter.extras import install  # slow to import, and rarely needed

        super().__init__(f"{what} needs a library that is not installed: {install(extra)}")
        self.extra = extra


class RowsRefused(UsageError):
    """Rows that can never be stored there, each with the reason. None of the batch was written."""

    def __init__(self, refused: Sequence[tuple[Result, str]]) -> None:
        result, reason = refused[0]
        more = f" (and {len(refused) - 1:,} more rows)" if len(refused) > 1 else ""
        super().__init__(f"the item from {shorten(result.url)} cannot be stored: {reason}{more}")
        self.refused = list(refused)


class SinkAway(InfrastructureError):
    """It is not accepting rows now. Nothing is lost: write the same rows again."""

    retryable = True


class SinkBusy(InfrastructureError):
    """Another process is writing this file."""


T = TypeVar("T")
S = TypeVar("S", bound=Store)
Ts = TypeVarTuple("Ts")


class ThreadedSink(Generic[S]):
    """A sink that passes each call to its store, one at a time, on one thread: the event loop never
    waits for a disk or a database.

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
        if isinstance(self.store, Prunable):
            gone = pages if self.store.prunes else [page for page in pages if page.is_notice]
            await self.run(self.store.forget, gone)

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


@dataclass(frozen=True, slots=True)
class LoadState:
    """Whether rows are being stored, and if not, why."""

    ok: bool
    message: str


def ignore(*_: object) -> None:
    """The default hook: do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPace:
    """How much is written at once, and how an unavailable sink is retried."""

    batch: int = 500
    linger_s: float = 0.2  # how long the first row of a batch waits for others
    quiet_s: float = 0.03  # it waits no longer when no others come for this long
    idle_s: float = 1.0  # how long one read waits
    transform_s: float = 1.0  # then write what has been transformed so far
    retry_base_s: float = 0.1
    retry_cap_s: float = 15.0

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise BadOption("batch", self.batch, "at least 1")
        for name in ("linger_s", "quiet_s", "idle_s", "transform_s", "retry_base_s", "retry_cap_s"):
            if getattr(self, name) < 0:
                raise BadOption(name, getattr(self, name), "0 or more")

    def backoff_s(self, attempt: int, *, chance: float) -> float:
        """Between half of the exponential step and all of it."""
        step: float = min(self.retry_cap_s, self.retry_base_s * 2.0 ** min(attempt, 60))
        return step * (0.5 + chance / 2)


class Stopped(Exception):
    """Told to stop while waiting for something that is away."""


@dataclass(slots=True)
class Retrier:
    """`await retry(call, ...)`: repeat what is away now, and report why, until it succeeds or is
    told to stop."""

    stop: asyncio.Event
    pace: LoadPace = field(default_factory=LoadPace)
    on_state: Callable[[LoadState], None] = ignore
    what: str = "the database"
    _state: LoadState | None = None

    async def __call__(self, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Return the result. Raises Stopped, and errors that retrying will not cure."""
        attempt = 0
        while True:
            try:
                answer = await call(*args)
            except (SkitterError, OSError) as error:
                if isinstance(error, SkitterError) and not error.retryable:
                    raise
                self._report(LoadState(ok=False, message=f"{str(error).rstrip('.')}, trying again"))
                await self._wait(self.pace.backoff_s(attempt, chance=random()))
                attempt += 1
            else:
                if attempt:
                    self._report(LoadState(ok=True, message=f"{self.what}: working again"))
                return answer

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except TimeoutError:
            return
        raise Stopped

    def _report(self, state: LoadState) -> None:
        if state != self._state:
            self._state = state
            self.on_state(state)
