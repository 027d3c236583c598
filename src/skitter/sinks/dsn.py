"""From what the user names to a sink."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.errors import shorten
from skitter.settings import check_job_name
from skitter.sinks.base import BadSink, Sink, Store
from skitter.sinks.csv import CsvFile
from skitter.sinks.jsonl import JsonlFile
from skitter.sinks.names import table_name
from skitter.sinks.postgres import Postgres
from skitter.sinks.shape import check_table
from skitter.sinks.sql import Dialect, SqlTable
from skitter.sinks.sqlite import Sqlite
from skitter.sinks.thread import open_on_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FORMS = """\
  sqlite:///items.db, items.db, items.sqlite   a SQLite file
  postgresql://user:password@host/database     a PostgreSQL database
  items.jsonl                                  JSON Lines
  items.csv                                    CSV
  items.parquet                                Parquet"""

_SQLITE_ENDINGS = (".db", ".sqlite", ".sqlite3")


@asynccontextmanager
async def open_sink(dsn: str, *, job: str, table: str | None = None) -> AsyncIterator[Sink]:
    """The sink for the items of a job, by the form of its name; closed at the end."""
    check_job_name(job)
    async with open_on_thread(partial(open_store, dsn, job=job, table=table)) as sink:
        yield sink


def open_store(dsn: str, *, job: str, table: str | None = None) -> Store:
    """The same without asyncio."""
    if dialect := find_dialect(dsn):
        store = table_of(dialect, job=job, table=table)
        try:
            store.create()
        except BaseException:
            store.close()
            raise
        return store
    if table is not None:
        raise BadSink("a table can be named only for a database: leave --table out.")
    return _open_file(dsn, job)


def table_of(dialect: Dialect, *, job: str, table: str | None = None) -> SqlTable:
    """A table of a database, there or not; by default the one named after the job."""
    name = table_name(job) if table is None else check_table(table)
    return SqlTable(dialect, table=name, job=job)


def find_dialect(dsn: str) -> Dialect | None:
    """The database that the name leads to; None if it is not one."""
    if dsn.startswith(("postgresql://", "postgres://")):
        return Postgres(dsn)
    if dsn.startswith("sqlite:"):
        path = dsn.removeprefix("sqlite:///")
        if path == dsn or not path or path == ":memory:":
            raise BadSink("name the SQLite file with three slashes: sqlite:///items.db")
        return Sqlite(Path(path))
    if "://" not in dsn and dsn.lower().endswith(_SQLITE_ENDINGS):
        return Sqlite(Path(dsn))
    return None


def _open_file(dsn: str, job: str) -> Store:
    ending = "" if "://" in dsn else Path(dsn).suffix.lower()
    if ending == ".jsonl":
        return JsonlFile(Path(dsn), job=job)
    if ending == ".csv":
        return CsvFile(Path(dsn), job=job)
    if ending == ".parquet":
        from skitter.sinks.parquet import ParquetParts  # an extra, and slow to import

        return ParquetParts(Path(dsn), job=job)
    # Only the scheme of an address: the rest may hold a password.
    shown = f"{dsn.partition('://')[0]}://..." if "://" in dsn else shorten(dsn)
    raise BadSink(f"{shown!r} is not a place that items can go to. Use one of:\n{FORMS}")
