"""What a job has stored, read back: for scripts and notebooks."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.app import open_server
from skitter.errors import UsageError
from skitter.frontier.admin.jobs import open_job
from skitter.frontier.admin.sink import find_sink
from skitter.redact import redact
from skitter.settings import find_server
from skitter.sinks import BadSink, Destination
from skitter.sinks.names import TYPE
from skitter.sinks.registry import find_type, is_database, open_database
from skitter.sinks.rows import row_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.settings import Settings

BATCH = 500


class Items(list[dict[str, Any]]):
    """Rows: the fields of an item, and `_id`, `_url` and `_fetched_at`."""

    def of(self, kind: str) -> Items:
        """Those of one type, by its name: rows of `class Book` are `book`. With its own fields."""
        rows = [row for row in self if row.get(TYPE) == kind]
        filled = {name for row in rows for name, value in row.items() if value is not None} - {TYPE}
        return Items({name: v for name, v in row.items() if name in filled} for row in rows)

    def df(self) -> Any:
        """A DataFrame of pandas, or else of polars."""
        # polars takes the columns of the first rows, unless told to read them all.
        for library, options in (("pandas", {}), ("polars", {"infer_schema_length": None})):
            try:
                return import_module(library).DataFrame(list(self), **options)
            except ImportError:
                continue
        raise UsageError("df() needs pandas or polars: pip install pandas")


def items(job: str, out: str | None = None, *, redis: str | None = None) -> Items:
    """All rows that a job has stored. `out`: its output, as given to `run`; by default, as the
    server `redis` or the embedded one knows it."""
    where = find_server(redis)
    if out is not None:
        return read_items(Destination(out, job, where.directory))
    with ThreadPoolExecutor(1) as thread:  # a notebook's own thread has a loop that runs
        place = thread.submit(asyncio.run, _find(job, where)).result()
    return read_items(Destination(place, job, where.directory))


async def _find(job: str, where: Settings) -> str:
    async with open_server(where) as server:
        place = await find_sink(await open_job(server, job))
    if not place:
        raise BadSink(f"{job} has stored nothing yet.")
    return place


def read_items(destination: Destination) -> Items:
    """A file that is written at the end is read from its store."""
    if is_database(destination.store):
        return Items(_rows(destination.store, destination.job))
    if find_type(destination.store).names[0] != ".jsonl":
        dsn = redact(destination.dsn)
        raise BadSink(f"rows cannot be read back from {dsn}: use its own client.")
    return Items(_lines(Path(destination.store)))


def _rows(dsn: str, job: str) -> Iterator[dict[str, Any]]:
    table = open_database(dsn, job=job)
    try:
        for page in table.read(batch=BATCH):
            for result in page.results:
                row = row_of(result)
                own = {"_id": row.id, "_url": row.url, "_fetched_at": row.fetched_at}
                yield row.fields | own
    finally:
        table.close()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The last line of each row: while a crawl runs, a changed row has several."""
    if not path.exists():
        raise BadSink(f"there is no file {path}: nothing was stored yet, or it was moved.")
    rows: dict[str, dict[str, Any]] = {}
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                row = msgspec.json.decode(line)
                rows[row.pop("_id")] = row
    for row_id, row in rows.items():
        own = {"_id": row_id, "_url": row.pop("_url"), "_fetched_at": row.pop("_fetched_at")}
        yield row | own
