"""A table of a database as it is: what is in it, and the errors of its database."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Column, MetaData, Table, Text, func, inspect, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import quoted_name

from skitter.sinks.base import BadSink, SinkAway
from skitter.sinks.columns import Kind
from skitter.sinks.databases.attachments import known_files
from skitter.sinks.databases.changes import count_changes, read_changes
from skitter.sinks.databases.shape import NAME, OF_MYSQL, FailureKind, Shape, read_shape
from skitter.sinks.rows import result_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from skitter.model import Result
    from skitter.sinks.comparison import Change
    from skitter.sinks.databases.shape import Dialect


class Page(NamedTuple):
    """Some rows, and all columns of the table."""

    columns: dict[str, Kind]
    results: list[Result]


class StoredTable:
    """What is in a table."""

    def __init__(self, dialect: Dialect, *, table: str, job: str) -> None:
        self.description = f"{dialect.name}, table {table}"
        self._dialect, self._table, self._job = dialect, table, job
        self.job = job
        self._engine = dialect.open()
        self.changes = 0  # noted of the job

    def count(self) -> int:
        """How many rows of the job there are."""
        with self._reading() as (connection, _, table):
            query = select(func.count()).select_from(table).where(table.c["_job"] == self._job)
            return int(connection.execute(query).scalar_one())

    def read(self, *, batch: int) -> Generator[Page]:
        """All current rows of the job in order of arrival, a batch at a time; at least one page."""
        with self._reading() as (connection, shape, table):
            query = select(table).where(table.c["_job"] == self._job)
            row_id = table.c["_id"]  # the items of a page are numbered: 10 comes after 9
            query = query.order_by(table.c["_fetched_at"], func.length(row_id), row_id)
            columns, fields = self.columns(shape), shape.columns
            yield Page(columns, [])
            stream = connection.execution_options(yield_per=batch)
            with closing(stream.execute(query)) as found:
                for part in found.partitions():
                    yield Page(columns, [result_in(row, fields) for row in part])

    def read_files(self) -> Generator[Page]:
        """What is known of files that the job has downloaded, as their workers told it."""
        with self._reading() as (connection, _, _):
            if inspect(connection).has_table("_skitter_downloads"):
                yield Page({}, [*known_files(connection, self._table, self._job)])

    def page(self, after: str, limit: int) -> list[Result]:
        """The job's next rows, by id, after `after`."""
        with self._reading() as (connection, shape, table):
            query = select(table).where(table.c["_job"] == self._job, table.c["_id"] > after)
            rows = connection.execute(query.order_by(table.c["_id"]).limit(limit))
            return [result_in(row, shape.columns) for row in rows]

    def count_changes(self) -> int:
        with self._reading() as (connection, _, _):
            self.changes = count_changes(connection, self._job)
        return self.changes

    def read_changes(
        self, *, after: int = 0, before: int | None = None, since: str = "", limit: int = 1000
    ) -> list[Change]:
        """What later visits found, oldest first, after a number; before one, newest first."""
        with self._reading() as (connection, _, _):
            if not inspect(connection).has_table("_changes"):
                return []  # written by an earlier release
            which: Any = {"after": after, "before": before, "since": since, "limit": limit}
            return read_changes(connection, self._job, **which)

    @contextmanager
    def transaction(self) -> Iterator[tuple[Connection, Shape, Table]]:
        """For what others keep beside the table: databases/part_files.py, tree.py."""
        self._dialect.require()
        with self._errors(), self._engine.begin() as connection:
            shape = self._existing(connection)
            yield connection, shape, self._as_table(shape)

    @property
    def types(self) -> Mapping[Kind, Any]:
        """The database's types."""
        return self._dialect.types

    @staticmethod
    def columns(shape: Shape) -> dict[str, Kind]:
        """All columns, for a file."""
        fields = {field: column.kind for field, column in shape.columns.items()}
        return {"_id": Kind.TEXT, "_url": Kind.TEXT, "_fetched_at": Kind.TIME} | fields

    @staticmethod
    def results(rows: Iterable[Iterable[Any]], shape: Shape) -> list[Result]:
        """Rows as they were stored."""
        return [result_in(row, shape.columns) for row in rows]

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, Shape, Table]]:
        self._dialect.require()
        with self._errors(), self._engine.connect() as connection:
            connection = connection.execution_options(skitter_read=True)
            with connection.begin():
                shape = self._existing(connection)
                yield connection, shape, self._as_table(shape)

    def _existing(self, connection: Connection) -> Shape:
        try:
            return read_shape(connection, self._table)
        except DBAPIError as error:
            if self._dialect.judge(error) is not FailureKind.MOVED:
                raise
            raise BadSink(f"there is no table {self._table!r} in {self._dialect.name}.") from error

    def close(self) -> None:
        self._engine.dispose()

    def _as_table(self, shape: Shape) -> Table:
        """SQLAlchemy's view of the table. Keys are generated: field names may contain anything."""
        types = self._dialect.types
        fields = (
            Column(quoted_name(column.name, quote=True), types[column.kind], key=key_of(number))
            for number, column in enumerate(shape.columns.values())
        )
        return Table(
            quoted_name(shape.table, quote=True),
            MetaData(),
            Column("_job", NAME, primary_key=True),
            Column("_id", self._dialect.id_type, primary_key=True),
            Column("_url", Text, nullable=False),
            Column("_fetched_at", types[Kind.TIME], nullable=False),
            *fields,
            **OF_MYSQL,
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate database errors into those that a sink may raise."""
        try:
            yield
        except DBAPIError as error:
            self._engine.dispose()
            trouble, reason = self._dialect.judge(error), self._dialect.explain(error)
            if trouble is FailureKind.BUG:
                raise
            if trouble is FailureKind.ALIEN:
                raise BadSink(
                    f"{self._dialect.name} cannot be used: {reason}. Choose another."
                ) from error
            what = self._dialect.away if trouble is FailureKind.AWAY else "does not accept the rows"
            raise SinkAway(f"{self._dialect.name} {what}: {reason}") from error


def key_of(number: int) -> str:
    return f"f{number}"


def result_in(row: Iterable[Any], fields: Iterable[str]) -> Result:
    _, row_id, url, fetched_at, *values = row
    found = zip(fields, values, strict=True)
    item = {field: value for field, value in found if value is not None}
    return result_of(row_id, url, fetched_at, item)
