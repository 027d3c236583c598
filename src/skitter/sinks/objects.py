"""Folders of parts, in an object store or on a disk: s3://, gs://, az:// and file:///. Needs the
extra `objects`.

Parts are only ever added, each under a name of its own that is put only if nothing is there yet: a
part that is written twice is there once. docs/adr/0082-parts.md
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from skitter.redact import redact
from skitter.settings.option import seconds_of
from skitter.sinks.base import BadSink, FileFormat, MissingExtra, SinkAway, open_on_thread
from skitter.sinks.databases.part_files import Outbox
from skitter.sinks.files.jsonl import JsonlFormat
from skitter.sinks.registry import open_database

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.sinks.base import Row
    from skitter.sinks.columns import Kind

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import from_url
except ImportError as error:
    raise MissingExtra("a folder of parts", "objects") from error

ROWS: Final = 50_000  # of a part
EVERY_S: Final = 600.0
FORMATS: Final = ("parquet", "jsonl")
RETRIES: Final[Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}


@dataclass(frozen=True, slots=True)
class Folder:
    """Where parts go, and what they are."""

    url: str
    format: str = "parquet"
    rows: int = ROWS
    every_s: float = EVERY_S  # while a loader runs, what has come since goes there

    @classmethod
    def of(cls, dsn: str) -> Folder:
        """`s3://bucket/folder/?format=jsonl&rows=1000&every=5m`."""
        url, _, query = dsn.partition("?")
        given = dict(parse_qsl(query))
        format, rows = given.pop("format", "parquet"), given.pop("rows", str(ROWS))
        every = given.pop("every", "")
        if format not in FORMATS or not rows.isdigit() or not int(rows) or given:
            raise BadSink(
                f"{redact(dsn)}: after the folder, only ?format=parquet or jsonl, &rows=N and "
                "&every=10m work."
            )
        return cls(url, format, int(rows), seconds_of("every", every) if every else EVERY_S)

    def open(self) -> Any:
        try:
            if self.url.startswith("file:"):
                return from_url(self.url, mkdir=True)
            return from_url(self.url, retry_config=RETRIES)
        except (BaseError, ValueError) as error:
            raise BadSink(f"{redact(self.url)} is not a folder: {error}") from error

    def check(self) -> None:
        """Raise BadSink, as far as can be known without asking the object store."""
        self.open()

    async def add(self, database: str, *, job: str) -> int:
        """Add the rows of a database that it does not have yet. Returns how many."""
        async with open_on_thread(partial(open_database, database, job=job)) as source:
            outbox = await source.run(partial(Outbox, source.store, self.url))
            remote, rows = self.open(), 0
            decide = partial(outbox.decide, self.rows, f".{self.format}", self.encode)
            while True:
                while part := await source.run(outbox.waiting):
                    await _put(remote, self, *part)
                    await source.run(outbox.written, part[0])
                if not (more := await source.run(decide)):
                    return rows
                rows += more

    def encode(self, columns: Mapping[str, Kind], rows: Sequence[Row]) -> bytes:
        kind: type[FileFormat] = JsonlFormat
        if self.format == "parquet":
            from skitter.sinks.files.parquet import ParquetFormat

            kind = ParquetFormat
        file = BytesIO()
        writer = kind(file, columns, safe=False)
        writer.write(rows)
        writer.close()
        return file.getvalue()


async def _put(remote: Any, folder: Folder, name: str, body: bytes) -> None:
    try:
        await obstore.put_async(remote, name, body, mode="create")
    except AlreadyExistsError:
        return  # written by somebody who was killed before he could say so
    except (BaseError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SinkAway(f"{redact(folder.url)} refuses a new part: {reason}") from error
