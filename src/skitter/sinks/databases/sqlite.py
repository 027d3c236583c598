"""SQLite: `sqlite:///path`, or a path that ends in .db, .sqlite or .sqlite3."""

from __future__ import annotations

import sqlite3
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import BigInteger, Boolean, Double, LargeBinary, Text, create_engine, event
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.pool import QueuePool
from sqlalchemy.types import UserDefinedType

from skitter.sinks.base import BadSink
from skitter.sinks.columns import Kind, fit, json_text, text_of
from skitter.sinks.databases.shape import Dialect, FailureKind, quote_of
from skitter.sinks.databases.sql import SqlTable, table_of
from skitter.sinks.files.ledger import why_not_written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError
    from sqlalchemy.types import TypeEngine

    from skitter.sinks.databases.shape import FieldColumn, Values

_BUSY_TIMEOUT_S = 30.0  # a loader's batch takes milliseconds; widening a table may take longer

_FAILURE_KINDS = {
    sqlite3.SQLITE_ERROR: FailureKind.MOVED,  # no such table, no such column
    sqlite3.SQLITE_SCHEMA: FailureKind.MOVED,
    sqlite3.SQLITE_BUSY: FailureKind.AWAY,
    sqlite3.SQLITE_LOCKED: FailureKind.AWAY,
    sqlite3.SQLITE_FULL: FailureKind.AWAY,
    sqlite3.SQLITE_IOERR: FailureKind.AWAY,
    sqlite3.SQLITE_CANTOPEN: FailureKind.AWAY,
    sqlite3.SQLITE_READONLY: FailureKind.AWAY,
    sqlite3.SQLITE_PERM: FailureKind.AWAY,
    sqlite3.SQLITE_PROTOCOL: FailureKind.AWAY,
    sqlite3.SQLITE_NOMEM: FailureKind.AWAY,
    sqlite3.SQLITE_TOOBIG: FailureKind.ROW,
    sqlite3.SQLITE_CONSTRAINT: FailureKind.ROW,
    sqlite3.SQLITE_MISMATCH: FailureKind.ROW,
    sqlite3.SQLITE_NOTADB: FailureKind.ALIEN,
    sqlite3.SQLITE_CORRUPT: FailureKind.ALIEN,
}


_OF_THE_DISK = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
}


def open_sqlite(dsn: str, *, job: str, table: str | None = None) -> SqlTable:
    """The table of a job in a SQLite file."""
    path = dsn.removeprefix("sqlite:///")
    if path.startswith("sqlite:") or path in ("", ":memory:"):
        raise BadSink("name the SQLite file with three slashes: sqlite:///items.db")
    return table_of(Sqlite(Path(path)), job=job, table=table)


class _AsText(UserDefinedType[Any]):
    """A column that SQLite stores as text, with a declared type that says what the text means."""

    cache_ok = True

    def __init__(
        self, declared: str, to_text: Callable[[Any], str], from_text: Callable[[str], Any]
    ) -> None:
        self.declared, self.to_text, self.from_text = declared, to_text, from_text

    def get_col_spec(self, **_: Any) -> str:
        return self.declared

    def bind_processor(self, dialect: Any) -> Callable[[Any], str | None]:
        return lambda value: None if value is None else self.to_text(value)

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any]:
        return lambda value: None if value is None else self.from_text(value)


_INTEGER, _TEXT = BigInteger(), Text()
# "TEXT" in the name: in a column of type JSON, SQLite would turn JSON such as 1.0 into a number.
_JSON = _AsText("JSON TEXT", json_text, msgspec.json.decode)
_TYPES: dict[Kind, TypeEngine[Any]] = {
    Kind.BOOL: Boolean(),
    Kind.INT: _INTEGER,
    Kind.LONG: _INTEGER,
    Kind.FLOAT: Double(),
    Kind.TEXT: _TEXT,
    Kind.BYTES: LargeBinary(),
    Kind.TIME: _AsText("TIMESTAMP", text_of, datetime.fromisoformat),
    Kind.DATE: _AsText("DATE", text_of, date.fromisoformat),
    Kind.JSON: _JSON,
}


class Sqlite(Dialect):
    """A SQLite file. BEGIN IMMEDIATE takes the only write lock there is."""

    away = "cannot be written"
    types = _TYPES
    # CROSS: else SQLite would read the whole table, and look for each row in the pages.
    rows_of_pages = (
        "SELECT t._id, t._fetched_at FROM json_each(:pages) p CROSS JOIN {table} t"
        " WHERE t._job = :job AND t._id > p.value || '-' AND t._id < p.value || '.'"
    )
    wire = {Kind.TIME: text_of, Kind.DATE: text_of, Kind.JSON: json_text}  # noqa: RUF012

    def __init__(self, path: Path) -> None:
        self.name = f"SQLite file {path}"
        self._path = path
        self._inode = 0

    def open(self) -> Engine:
        if not self._path.parent.is_dir():
            raise BadSink(f"there is no directory {self._path.parent}: create it first.")
        if self._path.is_dir():
            raise BadSink(f"{self._path} is a directory: name a file.")
        engine = create_engine(
            "sqlite+pysqlite://",
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
        )
        event.listen(engine, "begin", _begin)
        return engine

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        # WAL: readers do not block the loader. FULL: in WAL mode NORMAL does not force a commit to
        # disk, and a power cut could undo rows that were already acknowledged. One fsync per batch
        # is cheap.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.create_function("skitter_convert", 3, _convert, deterministic=True)
        self._inode = self._path.stat().st_ino
        return connection

    def require(self) -> None:
        if not self._path.is_file():
            raise BadSink(f"there is no database {self._path}: name the one to read with --from.")

    def refresh(self, engine: Engine) -> None:
        # Rows written to a deleted file would be lost.
        if not self._path.exists() or self._path.stat().st_ino != self._inode:
            engine.dispose()

    def insert_into(self, table: Table) -> Any:
        return insert(table)

    def send(
        self, connection: Connection, upsert: str, names: Sequence[str], rows: list[Values]
    ) -> None:
        connection.exec_driver_sql(upsert, rows)

    def add_columns(
        self, connection: Connection, table: str, columns: Sequence[FieldColumn]
    ) -> None:
        for column in columns:  # it adds one at a time
            super().add_columns(connection, table, [column])

    def widen_column(
        self, connection: Connection, table: str, column: FieldColumn, old: Kind
    ) -> None:
        """SQLite cannot change a column's type: a new column takes over its values and its name."""
        quote = quote_of(connection)
        name, fresh, of = quote(column.name), quote("_skitter_widened"), quote(table)
        declared = self.declared(connection, column.kind)
        run = connection.exec_driver_sql
        dependents = _take_dependents(connection, table)
        run(f"ALTER TABLE {of} ADD COLUMN {fresh} {declared}")
        run(f"UPDATE {of} SET {fresh} = skitter_convert({name}, ?, ?)", (old, column.kind))
        run(f"ALTER TABLE {of} DROP COLUMN {name}")
        run(f"ALTER TABLE {of} RENAME COLUMN {fresh} TO {name}")
        for statement in dependents:
            run(statement)

    def judge(self, error: DBAPIError) -> FailureKind:
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is None:  # raised by Python's sqlite3 before SQLite saw the value
            return FailureKind.ROW if isinstance(error.orig, sqlite3.DataError) else FailureKind.BUG
        return _FAILURE_KINDS.get(code & 0xFF, FailureKind.BUG)

    def explain(self, error: SQLAlchemyError) -> str:
        says = super().explain(error)
        code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & 0xFF
        return why_not_written(self._path, says) if code in _OF_THE_DISK else says


def _begin(connection: Connection) -> None:
    # IMMEDIATE: a transaction that reads first and writes later could not wait for the lock.
    reads = connection.get_execution_options().get("skitter_read")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _take_dependents(connection: Connection, table: str) -> list[str]:
    """Drop indexes, triggers and views that block the change; returns how to recreate them."""
    quote = quote_of(connection)
    found = connection.exec_driver_sql(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        " AND (type = 'view' OR type IN ('index', 'trigger') AND tbl_name = ?) ORDER BY rowid",
        (table,),
    ).all()
    for kind, name, _ in found:
        connection.exec_driver_sql(f"DROP {kind} IF EXISTS {quote(name)}")
    return [statement for _, _, statement in found]


def _convert(value: Any, old: str, new: str) -> Any:
    """Convert a stored value from one kind to another."""
    if value is None:
        return None
    value = bool(value) if old == Kind.BOOL else value
    fitted = fit(value, Kind(new))
    return json_text(fitted) if new == Kind.JSON else fitted
