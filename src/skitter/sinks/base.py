"""What a sink guarantees, and what it raises.

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

import math
from abc import ABC, abstractmethod
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol, runtime_checkable

import msgspec

from skitter.errors import InfrastructureError, UsageError, shorten
from skitter.model import Result
from skitter.sinks.kinds import Kind, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
class Clearable(Protocol):
    """A store that knows its rows, and can start over."""

    def count(self) -> int:
        """How many rows of the job there are."""

    def clear(self, *, drop: bool = False) -> int:
        """Remove the rows of the job, and nobody else's; return how many there were. `drop`: and
        their table, if it is the job's alone."""


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
