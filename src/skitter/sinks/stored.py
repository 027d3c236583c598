"""Read what a sink has stored: some rows, or all of them as a stream."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from skitter.sinks.base import BadSink, SinkAway
from skitter.sinks.csv import CsvFormat
from skitter.sinks.jsonl import JsonlFormat
from skitter.sinks.registry import is_database, open_database
from skitter.sinks.rows import row_of
from skitter.sinks.thread import open_on_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.sinks.base import FileFormat
    from skitter.sinks.sql import Page

Format = Literal["ndjson", "csv"]
FORMATS: dict[Format, type[FileFormat]] = {"ndjson": JsonlFormat, "csv": CsvFormat}
BATCH = 500
CHUNK_BYTES = 2**18
LINE_BYTES = 2**24


async def read_page(dsn: str, *, job: str, after: str, limit: int) -> list[tuple[str, bytes]]:
    """The rows after a position, each with its own position, as JSON lines. Raises BadSink."""
    if not is_database(dsn):
        return await asyncio.to_thread(_read_lines, Path(dsn), _number(after), limit)
    async with open_on_thread(partial(open_database, dsn, job=job)) as source:
        found = await source.run(source.store.page, after, limit)
    rows = map(row_of, found)
    return [(row.id, row.line) for row in rows]


@asynccontextmanager
async def open_export(dsn: str, *, job: str, format: Format) -> AsyncIterator[AsyncIterator[bytes]]:
    """All current rows, in chunks. Raises BadSink."""
    if is_database(dsn):
        async with open_on_thread(partial(open_database, dsn, job=job)) as source:
            pages = source.store.read(batch=BATCH)
            try:
                yield _parts(await source.run(next, pages), source, pages, FORMATS[format])
            finally:
                await source.run(pages.close)
    elif format == "ndjson":
        with _open(Path(dsn)) as file:
            yield _copy(file)
    else:
        raise BadSink("a JSON Lines file can only be exported as ndjson.")


async def _parts(
    first: Page, source: Any, pages: Any, format: type[FileFormat]
) -> AsyncIterator[bytes]:
    file = BytesIO()
    writer = format(file, first.columns, safe=True)
    page: Page | None = first
    while page is not None:
        writer.write([row_of(result) for result in page.results])
        if part := file.getvalue():
            yield part
        file.seek(0)
        file.truncate()
        page = await source.run(next, pages, None)


async def _copy(file: Any) -> AsyncIterator[bytes]:
    while part := await asyncio.to_thread(file.read, CHUNK_BYTES):
        yield part


def _read_lines(path: Path, start: int, limit: int) -> list[tuple[str, bytes]]:
    """A line's position is where the next one begins. A changed row may appear several times."""
    found: list[tuple[str, bytes]] = []
    with _open(path) as file:
        file.seek(start)
        while len(found) < limit and (line := file.readline(LINE_BYTES)).endswith(b"\n"):
            found.append((str(file.tell()), line.rstrip(b"\n")))
    return found


def _open(path: Path) -> Any:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise BadSink(
            f"there is no file {path}: nothing was stored yet, or it was moved."
        ) from None
    except OSError as error:
        raise SinkAway(f"cannot read {path}: {error.strerror}.") from error


def _number(after: str) -> int:
    return int(after) if after.isdigit() and len(after) < 20 else 0
