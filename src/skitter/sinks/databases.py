"""The databases among the sinks: which one a name leads to, and the table in it."""

from __future__ import annotations

from pathlib import Path

from skitter.sinks.base import BadSink
from skitter.sinks.names import table_name
from skitter.sinks.postgres import Postgres
from skitter.sinks.shape import check_table
from skitter.sinks.sql import Dialect, SqlTable
from skitter.sinks.sqlite import Sqlite

_SQLITE_ENDINGS = (".db", ".sqlite", ".sqlite3")


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
