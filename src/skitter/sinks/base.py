"""What a sink promises, and what it raises.

SkitterError
├── UsageError
│   ├── BadSink          not a place that items can go to
│   ├── MissingExtra     an optional library is not installed; names the command
│   └── RowsRefused      these rows can never be stored there; none of the call was written
└── InfrastructureError
    ├── SinkAway         it does not take rows now; the same call may succeed later
    └── SinkBusy         another process writes this file
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
        """Kind and place, without a password."""

    async def write(self, rows: Sequence[Result]) -> None:
        """Store the rows; return once a power cut could not take them back.

        A row is known by (job, fingerprint, index): writing it again updates it. All of the rows
        are stored or, when this raises, possibly some: write the same rows again.
        """

    async def forget(self, pages: Sequence[Result]) -> None:
        """Remove what earlier visits of their pages brought, where rows are ever removed: these
        items are none, or none that are stored."""

    async def close(self) -> None:
        """Finish the files and let go of them."""


class Store(Protocol):
    """A sink without asyncio, which may block: it has a thread of its own.

    What the modules of this package are, and what the entry point of another package names: it is
    called with the address or path as the user typed it, and the job: `MySink(dsn, job=job)`.
    """

    @property
    def description(self) -> str:
        """Kind and place, without a password."""

    def write(self, results: Sequence[Result]) -> None:
        """As `Sink.write`. Raise SinkAway to be asked again, RowsRefused for rows that can never
        be stored; anything else ends the loader."""

    def close(self) -> None:
        """Let go of it; also after an error, and twice."""


@runtime_checkable
class Prunable(Protocol):
    """A store that can remove rows."""

    prunes: bool  # remove those of earlier visits of a page, when it brings others

    def forget(self, pages: Sequence[Result]) -> None:
        """As `Sink.forget`: all that the pages brought before."""


class Row(msgspec.Struct, frozen=True):
    """One item as every sink stores it."""

    id: str  # fingerprint-index
    url: str
    fetched_at: datetime
    fields: dict[str, Any]
    json: bytes  # all its text: the URL and the fields
    result: Result

    @property
    def values(self) -> dict[str, Any]:
        """All columns of a file."""
        own = {"_id": self.id, "_url": self.url, "_fetched_at": self.fetched_at}
        return own | self.fields

    @property
    def line(self) -> bytes:
        """The whole row as JSON, without a line end."""
        own = {"_id": self.id, "_url": self.url, "_fetched_at": text_of(self.fetched_at)}
        return msgspec.json.encode(own | _without_nulls(self.fields))


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """A database does not tell null from a field that the item never had, and JSON has no NaN: left
    out, they are the same in a file that `--out` writes and in one that was exported.
    """
    return {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }


class FileFormat(ABC):
    """A file that is written whole, from the rows of a database."""

    #: How such a file begins; one that begins otherwise is not overwritten.
    lead: ClassVar[bytes] = b""

    @abstractmethod
    def __init__(self, file: BinaryIO, columns: Mapping[str, Kind], *, safe: bool) -> None:
        """`columns`: all of them, `_id`, `_url` and `_fetched_at` first. `safe`: text that a
        spreadsheet would run as a formula is written so that it does not."""

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None:  # noqa: B027  most files have no end of their own
        """Write what belongs at the end of the file, and leave it open."""


class BadSink(UsageError):
    """Not a place that items can go to."""


class MissingExtra(UsageError):
    """An optional library is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs a library that is not installed: pip install 'skitter[{extra}]'"
        )
        self.extra = extra


class RowsRefused(UsageError):
    """Rows that can never be stored there, each with the reason. None of the call was written."""

    def __init__(self, refused: Sequence[tuple[Result, str]]) -> None:
        result, reason = refused[0]
        more = f" (and {len(refused) - 1:,} more rows)" if len(refused) > 1 else ""
        super().__init__(f"the item of {shorten(result.url)} cannot be stored: {reason}{more}")
        self.refused = list(refused)


class SinkAway(InfrastructureError):
    """It does not take rows now. Nothing is lost: write the same rows again."""

    retryable = True


class SinkBusy(InfrastructureError):
    """Another process writes this file."""
