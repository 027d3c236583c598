"""PostgreSQL: `postgresql://user:password@host:port/database`. Needs the extra `postgres`."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    LargeBinary,
    Text,
    bindparam,
    column,
    create_engine,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB, insert
from sqlalchemy.exc import ArgumentError, DBAPIError

from skitter.sinks.base import BadSink, MissingExtra
from skitter.sinks.columns import Kind, json_text
from skitter.sinks.databases.shape import Dialect, FailureKind, parse_dsn, quote_of
from skitter.sinks.databases.sql import SqlTable, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.types import TypeEngine

    from skitter.sinks.base import Row
    from skitter.sinks.databases.shape import FieldColumn, Values

_NO_ADDRESS = "that is not a PostgreSQL address: postgresql://USER:PASSWORD@host/database"
_NUL = b"\\u0000"  # as encoded in JSON
_SCHEMA_LOCK = 0x5C177E5  # the advisory lock to hold while changing our tables
_LOCK_TIMEOUT = "30s"  # then report the open transaction that blocks us
_COLLATION = text(
    "SELECT c.collname FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation"
    " WHERE a.attrelid = to_regclass(quote_ident(:table)) AND a.attname = '_id'"
)

# postgresql.org/docs/current/errcodes-appendix.html. The longest prefix decides.
_FAILURE_KINDS = {
    "42P01": FailureKind.MOVED,  # undefined table
    "42703": FailureKind.MOVED,  # undefined column
    "42804": FailureKind.MOVED,  # datatype mismatch
    "42701": FailureKind.MOVED,  # duplicate column
    "42P07": FailureKind.MOVED,  # duplicate table
    "42P10": FailureKind.MOVED,  # the owner dropped the primary key
    "428C9": FailureKind.MOVED,  # or made a column of ours a generated one
    "42809": FailureKind.MOVED,  # or put something else in the place of the table
    "42883": FailureKind.MOVED,  # or a trigger calls a function that is not there
    "0A000": FailureKind.AWAY,  # a view blocks widening: its owner can drop it
    "2BP01": FailureKind.AWAY,
    "42501": FailureKind.AWAY,  # insufficient privilege: a GRANT fixes it
    "42": FailureKind.BUG,
    "22": FailureKind.ROW,  # data exception
    "23": FailureKind.ROW,  # a constraint that the table's owner added
    "44": FailureKind.ROW,  # the same, of a view with CHECK OPTION
    "P0": FailureKind.ROW,  # a trigger of the owner raised it
    "54": FailureKind.ROW,  # program limit exceeded: the row is too big
}

_TYPES: dict[Kind, TypeEngine[Any]] = {
    Kind.BOOL: Boolean(),
    Kind.INT: BigInteger(),
    Kind.LONG: BigInteger(),
    Kind.FLOAT: Double(),
    Kind.TEXT: Text(),
    Kind.BYTES: LargeBinary(),
    Kind.TIME: DateTime(timezone=True),
    Kind.DATE: Date(),
    Kind.JSON: JSONB(none_as_null=True),
}

# Rows are sent as JSON, from which PostgreSQL reads all types.
_WIRE: dict[Kind, Callable[[Any], Any]] = {
    Kind.FLOAT: lambda value: value if math.isfinite(value) else repr(value),
    Kind.BYTES: lambda value: f"\\x{value.hex()}",
}


def open_postgres(dsn: str, *, job: str, table: str | None = None) -> SqlTable:
    """The table of a job in a PostgreSQL database."""
    return table_of(Postgres(dsn), job=job, table=table)


class Postgres(Dialect):
    """A PostgreSQL database. Its pool pings the connection before each use."""

    away = "does not answer"
    types, wire = _TYPES, _WIRE
    # OFFSET 0: a subquery of its own, else PostgreSQL may scan the table for each page.
    rows_of_pages = (
        "SELECT t.* FROM json_array_elements_text(CAST(:pages AS json)) p(value), LATERAL"
        " (SELECT _id, _fetched_at FROM {table} WHERE _job = :job"
        " AND _id COLLATE \"C\" > p.value || '-' AND _id COLLATE \"C\" < p.value || '.'"
        " OFFSET 0) t"
    )
    # In most other collations "7." comes before "7-0", so that a page's rows are not in one range.
    row_id = '_id COLLATE "C"'
    id_type = Text(collation="C")

    def __init__(self, dsn: str) -> None:
        url = parse_dsn(dsn, otherwise=_NO_ADDRESS)
        self._url = url.set(drivername="postgresql+psycopg")
        where = f"{url.host or 'local socket'}{f':{url.port}' if url.port else ''}"
        self.name = f"PostgreSQL at {where}/{url.database or ''}"

    def open(self) -> Engine:
        defaults: dict[str, Any] = {
            "connect_timeout": 10,
            # Notice a server whose machine is gone, and retry the batch.
            "tcp_user_timeout": 30_000,
            "application_name": "skitter",
            # Otherwise psycopg takes the database's own. SQL_ASCII, which `initdb` chooses on a
            # machine without a locale, would make bytes of all text.
            "client_encoding": "utf8",
        }
        arguments = {name: v for name, v in defaults.items() if name not in self._url.query}
        arguments["prepare_threshold"] = None  # pgbouncer's pools do not keep prepared statements
        try:
            return create_engine(
                self._url,
                connect_args=arguments,
                pool_size=1,
                max_overflow=0,
                pool_pre_ping=True,
                json_serializer=lambda value: msgspec.json.encode(value).decode(),
                json_deserializer=msgspec.json.decode,
            )
        except ModuleNotFoundError as error:
            raise MissingExtra("postgresql", "postgres") from error
        except ArgumentError as error:  # of the query: it is read here
            raise BadSink(_NO_ADDRESS) from error

    def clean(self, row: Row) -> Row:
        if _NUL not in row.json:
            return row
        fields = _without_nul(row.fields)
        return msgspec.structs.replace(row, url=_without_nul(row.url), fields=fields)

    def insert_into(self, table: Table) -> Any:
        """Inserts from one JSON text: a statement per row costs four times as much, and arrays,
        which psycopg encodes in Python, twice as much."""
        columns = [column(one.key, one.type) for one in table.c]
        given = func.json_to_recordset(bindparam("rows", type_=JSON))
        rows = given.table_valued(*columns).render_derived(with_types=True)
        return insert(table).from_select(list(table.c), select(rows))

    def send(
        self, connection: Connection, upsert: str, names: Sequence[str], rows: list[Values]
    ) -> None:
        named = [dict(zip(names, row, strict=True)) for row in rows]
        connection.exec_driver_sql(upsert, {"rows": json_text(named)})

    def begin_write(self, connection: Connection, table: str, *, alone: bool) -> None:
        # The lock that INSERT takes anyway, but before the shape is read: ALTER TABLE then waits.
        mode = "SHARE ROW EXCLUSIVE" if alone else "ROW EXCLUSIVE"
        quote = quote_of(connection)
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        connection.exec_driver_sql(f"LOCK TABLE {quote(table)} IN {mode} MODE")

    def begin_feed(self, connection: Connection) -> None:
        connection.exec_driver_sql("LOCK TABLE _changes IN SHARE ROW EXCLUSIVE MODE")

    def begin_change(self, connection: Connection, table: str) -> None:
        # Not a table lock: the table may not exist yet, and two CREATE TABLE at once collide.
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")

    def index_pages(self, connection: Connection, table: str) -> None:
        """Not if the primary key has the collation of `row_id` already; and if this user may not,
        pages are looked up without it."""
        collation = connection.execute(_COLLATION, {"table": table}).scalar()
        if collation == "C":
            return
        quote = quote_of(connection)
        name = quote(f"{table[:50]}_skitter_pages")
        with suppress(DBAPIError), connection.begin_nested():
            connection.exec_driver_sql(
                f"CREATE INDEX IF NOT EXISTS {name} ON {quote(table)} (_job, {self.row_id})"
            )

    def widen_column(
        self, connection: Connection, table: str, column: FieldColumn, old: Kind
    ) -> None:
        quote = quote_of(connection)
        name = quote(column.name)
        declared = self.declared(connection, column.kind)
        connection.exec_driver_sql(
            f"ALTER TABLE {quote(table)} ALTER COLUMN {name} TYPE {declared}"
            f" USING {_converted(name, old, column.kind)}"
        )

    def judge(self, error: DBAPIError) -> FailureKind:
        state = getattr(error.orig, "sqlstate", None) or ""
        for length in (5, 2):
            if state[:length] in _FAILURE_KINDS:
                return _FAILURE_KINDS[state[:length]]
        return FailureKind.AWAY  # no connection, shutting down, disk full, read only, deadlock, ...


def _without_nul(value: Any) -> Any:
    """PostgreSQL text cannot contain NUL, not even in JSON."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nul(each) for each in value]
    return value


def _converted(name: str, old: Kind, new: Kind) -> str:
    """SQL that converts stored values the way `fit` converts new ones."""
    if new is Kind.FLOAT:
        return f"{name}::double precision"
    if new is Kind.JSON and old in (Kind.BOOL, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.TEXT):
        return f"to_jsonb({name})"
    as_text = {
        Kind.BYTES: f"translate(encode({name}, 'base64'), E'\\n', '')",
        Kind.TIME: f"to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
    }.get(old, f"{name}::text")
    return f"to_jsonb({as_text})" if new is Kind.JSON else as_text
