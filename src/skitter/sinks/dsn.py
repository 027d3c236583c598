"""From what the user names to a sink."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skitter.errors import shorten
from skitter.redact import MASK, redact
from skitter.settings import check_job_name
from skitter.sinks.base import BadSink, Sink, Store
from skitter.sinks.csv import CsvFile
from skitter.sinks.jsonl import JsonlFile
from skitter.sinks.thread import open_on_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FORMS = """\
  sqlite:///items.db, items.db, items.sqlite   a SQLite file
  postgresql://user:password@host/database     a PostgreSQL database
  items.jsonl                                  JSON Lines
  items.csv                                    CSV
  items.parquet                                Parquet"""


@asynccontextmanager
async def open_sink(
    dsn: str, *, job: str, table: str | None = None, csv_safe: bool = True
) -> AsyncIterator[Sink]:
    """The sink for the items of a job, by the form of its name; closed at the end."""
    check_job_name(job)
    opening = partial(open_store, dsn, job=job, table=table, csv_safe=csv_safe)
    async with open_on_thread(opening) as sink:
        yield sink


def open_store(dsn: str, *, job: str, table: str | None = None, csv_safe: bool = True) -> Store:
    """The same without asyncio."""
    if dialect := databases().find_dialect(dsn):
        store = databases().table_of(dialect, job=job, table=table)
        try:
            store.create()
        except BaseException:
            store.close()
            raise
        opened: Store = store
        return opened
    if table is not None:
        raise BadSink("a table can be named only for a database: leave --table out.")
    return _open_file(dsn, job, csv_safe)


def place_of(dsn: str) -> str:
    """What a sink is known by: the whole path of a file; a database without login and options."""
    if is_local(dsn):
        return str(Path(dsn.removeprefix("sqlite:///")).absolute())
    rest = redact(dsn).partition("://")[2].removeprefix(f"{MASK}@")
    return f"postgresql://{rest.partition('?')[0]}".replace(":5432/", "/")


def is_local(dsn: str) -> bool:
    """A file, and not a server."""
    return dsn.startswith("sqlite:") or "://" not in dsn


def is_missing(dsn: str) -> bool:
    """A file that is not there."""
    return is_local(dsn) and not Path(place_of(dsn)).exists()


def databases() -> Any:
    """`skitter.sinks.databases`, when it is needed: most commands open no database, and SQLAlchemy
    takes longer to import than they take to run."""
    return import_module("skitter.sinks.databases")


def _open_file(dsn: str, job: str, csv_safe: bool) -> Store:
    ending = "" if "://" in dsn else Path(dsn).suffix.lower()
    if ending == ".jsonl":
        return JsonlFile(Path(dsn), job=job)
    if ending == ".csv":
        return CsvFile(Path(dsn), job=job, safe=csv_safe)
    if ending == ".parquet":
        from skitter.sinks.parquet import ParquetParts  # an extra, and slow to import

        return ParquetParts(Path(dsn), job=job)
    # Only the scheme of an address: the rest may hold a password.
    shown = f"{dsn.partition('://')[0]}://..." if "://" in dsn else shorten(dsn)
    raise BadSink(f"{shown!r} is not a known kind of sink. Use one of:\n{FORMS}")
