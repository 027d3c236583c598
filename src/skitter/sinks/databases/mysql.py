"""MariaDB and MySQL: `mysql://user:password@host:port/database`. Needs the extra `mysql`.

They commit before and after each change of a table, so a transaction does not keep other loaders
out: an advisory lock does, for all that we write. What we note of columns is noted before they are
added, and after they are widened: killed in between, the next loader does it again.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Boolean, Date, Double, and_, case, create_engine, event, inspect, null, text
from sqlalchemy.dialects.mysql import BIGINT, DATETIME, LONGBLOB, LONGTEXT, VARCHAR, insert
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.types import TypeDecorator

from skitter.sinks.base import BadSink, MissingExtra, SinkAway
from skitter.sinks.columns import Kind, json_text
from skitter.sinks.databases.shape import Dialect, FailureKind, parse_dsn, quote_of
from skitter.sinks.databases.sql import SqlTable, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Engine, Insert, Table
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.types import TypeEngine

    from skitter.sinks.databases.shape import FieldColumn, Values

_NO_ADDRESS = "that is not a MySQL address: mysql://USER:PASSWORD@host/database"
_LOCK_S = 30  # then report whoever blocks us
_BINARY = "utf8mb4_bin"
_WIDENED = "_skitter_widened"

# mariadb.com/kb/en/mariadb-error-codes
_FAILURE_KINDS = {
    1146: FailureKind.MOVED,  # no such table
    1054: FailureKind.MOVED,  # no such column
    1050: FailureKind.MOVED,  # the table exists
    1060: FailureKind.MOVED,  # the column exists
    1048: FailureKind.ROW,  # null, where the owner wants none
    1062: FailureKind.ROW,  # twice, where the owner wants it once
    1118: FailureKind.ROW,  # too many bytes for a row
    1153: FailureKind.ROW,  # larger than max_allowed_packet
    1264: FailureKind.ROW,  # out of range
    1265: FailureKind.ROW,
    1292: FailureKind.ROW,
    1366: FailureKind.ROW,  # not of the column's type
    1406: FailureKind.ROW,  # too long
    1452: FailureKind.ROW,  # a foreign key of the owner
    1644: FailureKind.ROW,  # a trigger of the owner
    3819: FailureKind.ROW,  # a check of the owner, in MySQL
    4025: FailureKind.ROW,  # and in MariaDB
    1064: FailureKind.BUG,
}


#: Names of columns are compared without accents there, and may hold no emoji and end in no blank.
#: Of a percent sign, PyMySQL makes two.
_ODD = re.compile(r"[^\x20-\x24\x26-\x7e]| +$")
_PREFIX = 255  # characters of a text, in an index


class _Time(TypeDecorator[datetime]):
    """Instants: the columns have no zone, and hold UTC."""

    impl = DATETIME(fsp=6)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        return value and value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        return value and value.replace(tzinfo=UTC)


class _Json(TypeDecorator[Any]):
    """As text: MariaDB's own type is that with a limit on depth, and MySQL's changes numbers."""

    impl = LONGTEXT
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        return None if value is None else json_text(value)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else msgspec.json.decode(value)


_TYPES: dict[Kind, TypeEngine[Any]] = {
    Kind.BOOL: Boolean(),
    Kind.INT: BIGINT(),
    Kind.LONG: BIGINT(),
    Kind.FLOAT: Double(),
    Kind.TEXT: LONGTEXT(),
    Kind.BYTES: LONGBLOB(),
    Kind.TIME: _Time(),
    Kind.DATE: Date(),
    Kind.JSON: _Json(),
}


def open_mysql(dsn: str, *, job: str, table: str | None = None) -> SqlTable:
    """The table of a job in a MariaDB or MySQL database."""
    return table_of(Mysql(dsn), job=job, table=table)


class Mysql(Dialect):
    """A MariaDB or MySQL database. Its pool pings the connection before each use."""

    away = "does not answer"
    types = _TYPES
    wire = {  # noqa: RUF012
        Kind.TIME: lambda value: value.astimezone(UTC).replace(tzinfo=None),
        Kind.FLOAT: lambda value: value if math.isfinite(value) else None,
        Kind.JSON: json_text,
    }
    rows_of_pages = (
        "SELECT t._id, t._fetched_at FROM JSON_TABLE(:pages, '$[*]' COLUMNS"
        " (value VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) p"
        " STRAIGHT_JOIN {table} t ON t._job = :job"
        f" AND t._id > CONCAT(p.value, '-') COLLATE {_BINARY}"
        f" AND t._id < CONCAT(p.value, '.') COLLATE {_BINARY}"
    )
    id_type = VARCHAR(255, collation=_BINARY)
    odd_names = _ODD

    def __init__(self, dsn: str) -> None:
        url = parse_dsn(dsn, otherwise=_NO_ADDRESS)
        if not url.database:
            raise BadSink(_NO_ADDRESS)
        self._url = url.set(drivername="mysql+pymysql")
        where = f"{url.host or 'localhost'}{f':{url.port}' if url.port else ''}"
        self.name = f"MySQL at {where}/{url.database}"

    def open(self) -> Engine:
        defaults: dict[str, Any] = {
            "charset": "utf8mb4",
            "connect_timeout": 10,
            "write_timeout": 60,
            "read_timeout": 600,  # a column of a large table is being changed
            # A machine that is gone keeps its lock for as long.
            "init_command": "SET SESSION wait_timeout = 120, sql_mode = 'STRICT_ALL_TABLES'",
            "program_name": "skitter",
        }
        arguments = {name: v for name, v in defaults.items() if name not in self._url.query}
        try:
            engine = create_engine(
                self._url,
                connect_args=arguments,
                isolation_level="READ COMMITTED",
                paramstyle="format",
                pool_size=1,
                max_overflow=0,
                pool_pre_ping=True,
            )
        except ModuleNotFoundError as error:
            raise MissingExtra("mysql", "mysql") from error
        except ArgumentError as error:  # of the query: it is read here
            raise BadSink(_NO_ADDRESS) from error
        event.listen(engine, "reset", _unlock)
        return engine

    def insert_into(self, table: Table) -> Any:
        return insert(table)

    def upsert(self, table: Table) -> Insert:
        """A row that is like another one by an index of the owner would replace that: the first
        change makes an error of it. Changes are made from left to right: the time comes last."""
        added, time = insert(table), table.c["_fetched_at"]
        new, keys = added.inserted, [column for column in table.c if column.primary_key]
        is_it = and_(*(key == new[key.key] for key in keys))
        changes = [("_id", case((is_it, table.c["_id"]), else_=null()))]
        fields = [column for column in table.c if column is not time and column not in keys]
        changes += [
            (column.key, case((new["_fetched_at"] >= time, new[column.key]), else_=column))
            for column in (*fields, time)
        ]
        upsert: Insert = added.on_duplicate_key_update(changes)
        return upsert

    def send(
        self, connection: Connection, upsert: str, names: Sequence[str], rows: list[Values]
    ) -> None:
        connection.exec_driver_sql(upsert, rows)

    def begin_write(self, connection: Connection, table: str, *, alone: bool) -> None:
        self._lock(connection, table)

    def begin_feed(self, connection: Connection) -> None:
        self._lock(connection, "_changes")

    def begin_change(self, connection: Connection, table: str) -> None:
        self._lock(connection, "_skitter_columns")
        self._lock(connection, table)

    def _lock(self, connection: Connection, what: str) -> None:
        """Until the connection goes back to its pool. A name has at most 64 characters."""
        name = blake2b(f"{self._url.database} {what}".encode(), digest_size=16).hexdigest()
        got = connection.execute(text("SELECT GET_LOCK(:name, :s)"), {"name": name, "s": _LOCK_S})
        if got.scalar() != 1:
            raise SinkAway(f"{self.name}: another process has locked {what} for {_LOCK_S} s")

    def widen_column(
        self, connection: Connection, table: str, column: FieldColumn, old: Kind
    ) -> None:
        """A new column takes over the values and, in one step, the name and the indexes."""
        of, name, fresh = map(quote_of(connection), (table, column.name, _WIDENED))
        declared, value = self.declared(connection, column.kind), _converted(name, old, column.kind)
        found = inspect(connection)
        if _WIDENED in [one["name"] for one in found.get_columns(table)]:  # a killed loader's
            connection.exec_driver_sql(f"ALTER TABLE {of} DROP COLUMN {fresh}")
        connection.exec_driver_sql(f"ALTER TABLE {of} ADD COLUMN {fresh} {declared}")
        connection.exec_driver_sql(f"UPDATE {of} SET {fresh} = {value}")
        steps = [f"DROP COLUMN {name}", f"CHANGE COLUMN {fresh} {name} {declared}"]
        is_text = column.kind is not Kind.FLOAT
        for index in found.get_indexes(table):
            if column.name in index["column_names"]:
                steps += _again(index, column.name if is_text else "", quote_of(connection))
        connection.exec_driver_sql(f"ALTER TABLE {of} {', '.join(steps)}")

    def judge(self, error: DBAPIError) -> FailureKind:
        code: Any = next(iter(getattr(error.orig, "args", ())), None)
        # Else: no connection, shutting down, disk full, read only, deadlock, ...
        return _FAILURE_KINDS.get(code, FailureKind.AWAY)

    def explain(self, error: SQLAlchemyError) -> str:
        said = getattr(getattr(error, "orig", None), "args", ())
        if said[:2] == (1048, "Column '_id' cannot be null"):
            return "another row has the same value, and the table has a unique index"
        reason = str(said[-1] if said else error).strip()
        return reason.splitlines()[0] if reason else type(error).__name__


def _again(index: Any, text: str, quote: Callable[[str], str]) -> tuple[str, str]:
    """The steps that make an index anew. `text`: a column of it that is text now."""
    lengths = dict(index.get("dialect_options", {}).get("mysql_length", {}))
    lengths |= {text: _PREFIX} if text else {}
    places = [
        quote(one) + (f"({lengths[one]})" if one in lengths else "")
        for one in index["column_names"]
    ]
    unique, name = "UNIQUE " * bool(index["unique"]), quote(index["name"])
    return f"DROP INDEX {name}", f"ADD {unique}INDEX {name} ({', '.join(places)})"


def _unlock(connection: Any, *_: object) -> None:
    with suppress(Exception), connection.cursor() as cursor:  # it may be broken
        cursor.execute("DO RELEASE_ALL_LOCKS()")


def _converted(name: str, old: Kind, new: Kind) -> str:
    """SQL that converts stored values the way `fit` converts new ones."""
    if new is Kind.FLOAT:
        return f"{name} + 0e0"
    as_text = {
        Kind.BOOL: f"IF({name}, 'true', 'false')",
        Kind.BYTES: f"REPLACE(TO_BASE64({name}), CHAR(10), '')",
        Kind.TIME: f"CONCAT(REPLACE(CAST({name} AS CHAR), ' ', 'T'), 'Z')",
    }.get(old, f"CAST({name} AS CHAR)")
    as_text = f"IF({name} IS NULL, NULL, {as_text})"
    is_json = new is not Kind.JSON or old in (Kind.BOOL, Kind.INT, Kind.LONG, Kind.FLOAT)
    return as_text if is_json else f"JSON_QUOTE({as_text})"
