"""Items in a table: SQLite, PostgreSQL, MariaDB and MySQL, through SQLAlchemy Core.

A batch is one transaction: read the shape of the table, upsert. If the shape is too narrow, a
second transaction widens it under a lock, after checking again (another loader may have done it),
and the batch starts over. Statements specific to one database are in sqlite.py, postgres.py
and mysql.py.

SQLAlchemy composes the upsert, once per shape; the values bypass it. Its work per row would take
longer than the database's.
"""

from __future__ import annotations

from copy import deepcopy
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    Column,
    Text,
    bindparam,
    delete,
    inspect,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable, DropTable

from skitter.model import files_in
from skitter.sinks.base import Row, RowsRefused, SinkAway
from skitter.sinks.columns import EXACT_IN_FLOAT, Kind, fit, json_text, table_name
from skitter.sinks.comparison import Noise, is_gone
from skitter.sinks.databases.attachments import (
    fill_files,
    forget_files,
    give_again,
    has_other_file,
    note_files,
    note_uses,
)
from skitter.sinks.databases.changes import Feed, News, count_changes, forget_changes
from skitter.sinks.databases.shape import (
    CATALOG,
    FailureKind,
    FieldColumn,
    Shape,
    begin_crawl,
    check_crawl,
    check_table,
    find_shape,
    has_news,
    note_columns,
    note_emptied,
    put_views,
    quote_of,
    read_crawl,
    read_emptied,
    read_shape,
    take_views,
    types_in,
)
from skitter.sinks.databases.stored_table import StoredTable, key_of, result_in
from skitter.sinks.rows import Fresh, began_by_page, fresh_of, is_file, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from skitter.model import Result
    from skitter.sinks.databases.shape import Dialect, Types

#: Limit on the JSON of one statement; a single row may exceed it.
STATEMENT_BYTES = 16 * 2**20
_IDS = 1000  # in one query
_ATTEMPTS = 10  # for a batch whose table other loaders keep changing


def table_of(dialect: Dialect, *, job: str, table: str | None = None) -> SqlTable:
    """A table of a database, whether it exists or not; named after the job by default."""
    name = table_name(job) if table is None else check_table(table)
    return SqlTable(dialect, table=name, job=job)


class _Upsert(NamedTuple):
    """The statement for rows of one shape: composing it takes as long as storing a few rows."""

    shape: Shape
    statement: str


class SqlTable(StoredTable):
    """One table, on one connection."""

    def __init__(self, dialect: Dialect, *, table: str, job: str) -> None:
        super().__init__(dialect, table=table, job=job)
        self._last: _Upsert | None = None
        self._crawl = 0  # as in `_skitter_crawls`
        self._types: Types = {}  # that have a view
        self.prunes = False  # remove the rows of earlier visits to a page
        self._forgets = False  # was told to, of some page
        self.noise = Noise()

    def create(self) -> None:
        """Create the table if it does not exist; BadSink if it does and is not ours."""
        with self._errors():
            self._change([])
            with self._engine.begin() as connection:
                self._crawl = read_crawl(connection, self._table, self._job)
                self.changes = count_changes(connection, self._job)

    def write(self, results: Sequence[Result]) -> int:
        # Sorted, so that two loaders that write the same rows do not deadlock.
        rows = sorted(map(self._dialect.clean, rows_of(results)), key=attrgetter("id"))
        if not rows:
            return 0
        with self._errors():
            self._dialect.refresh(self._engine)
            try:
                return self._store(rows)
            except DBAPIError as error:
                if self._dialect.judge(error) is not FailureKind.ROW:
                    raise
                refused = self._find_refused(rows)
                if not refused:
                    raise
                raise RowsRefused(refused) from error

    def forget(self, pages: Sequence[Result]) -> None:
        """Remove their rows, and note which are gone: those stay, if this job does not prune."""
        if not pages:
            return
        with self._errors():
            self._dialect.refresh(self._engine)
            self._store([], emptied=pages)
            self._forgets = True

    def clear(self, *, drop: bool = False) -> int:
        """Remove all rows of the job; return how many there were. `drop`: and the table, which is
        nobody else's, so that columns of fields that are gone go with it."""
        with self._errors():
            self._change([])
            with self._engine.begin() as connection:
                self._dialect.begin_change(connection, self._table)
                self._dialect.begin_write(connection, self._table, alone=True)
                table = self._as_table(read_shape(connection, self._table))
                gone = connection.execute(delete(table).where(table.c["_job"] == self._job))
                crawl = begin_crawl(connection, self._table, self._job)
                forget_changes(connection, self._job)
                forget_files(connection, self._table, self._job)
                if drop:
                    take_views(connection, self._table)
                    connection.execute(DropTable(table))
        self._types = {}
        self._crawl, self.changes = crawl, 0
        return gone.rowcount

    def _store(self, rows: list[Row], *, emptied: Sequence[Result] = ()) -> int:
        for left in reversed(range(_ATTEMPTS)):
            try:
                if (updated := self._put(rows, emptied)) is not None:
                    return updated
                self._change(rows)
            except DBAPIError as error:
                if self._dialect.judge(error) is not FailureKind.MOVED or not left:
                    raise
                self._change([])  # the table itself may be gone
        raise SinkAway(f"{self._dialect.name} is busy: other loaders keep changing the table")

    def _put(self, rows: list[Row], emptied: Sequence[Result]) -> int | None:
        """Store the rows, remove older ones, and note the changes. Returns how many were replaced;
        None: the table is not wide enough for them, or a type has no view yet."""
        files = [row for row in rows if is_file(row.fields)]
        rows = [row for row in rows if not is_file(row.fields)]
        names_files = any(any(files_in(row.fields)) for row in rows)
        alone = self.prunes or bool(emptied or files) or names_files
        with self._engine.begin() as connection:
            self._dialect.begin_write(connection, self._table, alone=alone)
            check_crawl(connection, self._table, self._job, ours=self._crawl)
            shape = read_shape(connection, self._table)
            if shape.plan(rows, self._dialect.odd_names) or has_news(types_in(rows), self._types):
                return None
            if names_files:  # before rows are compared: a file that is known is no change
                fill_files(connection, self._table, self._job, rows)
            known = self._known_empty(connection, began_by_page(rows, emptied))
            fresh, news = self._compared(connection, rows, emptied, known)
            if news:
                self._dialect.begin_feed(connection)  # then look again: others may have been faster
                fresh, news = self._compared(connection, rows, emptied, known)
                self._note(connection, shape, news)
            upsert = self._upsert_of(shape)
            if names_files:
                note_uses(connection, self._table, self._job, fresh.rows)
            for part in _parts(fresh.rows):
                self._send(connection, upsert, part)
            if files and (ids := note_files(connection, self._table, self._job, files)):
                self._complete(connection, upsert, sorted(ids), max(f.fetched_at for f in files))
            self._prune(connection, shape, news.ended)
            ended = began_by_page([], self._removed(emptied))
            later = {page: max(at, known.get(page, at)) for page, at in ended.items()}
            note_emptied(connection, self._table, self._job, later)
        return fresh.updated

    def _complete(
        self, connection: Connection, upsert: _Upsert, ids: Sequence[str], at: datetime
    ) -> None:
        """Fill what is known by now of their files into stored rows."""
        stored = self._values_of(connection, upsert.shape, ids).values()
        was = {row.id: row.fields for row in rows_of(deepcopy([*stored]))}
        older = rows_of(stored)
        fill_files(connection, self._table, self._job, older)
        if not (rows := [row for row in older if row.fields != was[row.id]]):
            return
        self._send(connection, upsert, rows)
        give_again(connection, self._job, [row.id for row in rows])
        if changed := [row for row in rows if has_other_file(was[row.id], row.fields)]:
            self._dialect.begin_feed(connection)
            self._feed(connection, upsert.shape).note_files(changed, was, at)
            self.changes = count_changes(connection, self._job)

    def _feed(self, connection: Connection, shape: Shape) -> Feed:
        kinds = {name: column.kind for name, column in shape.columns.items()}
        return Feed(connection, self._job, kinds, self.noise)

    def _removed(self, emptied: Sequence[Result]) -> list[Result]:
        """Pages whose rows go: not those that are gone, unless this job prunes."""
        return [result for result in emptied if self.prunes or not is_gone(result)]

    def _compared(
        self,
        connection: Connection,
        rows: list[Row],
        emptied: Sequence[Result],
        known: dict[str, datetime],
    ) -> tuple[Fresh, News]:
        stored = self._known_times(connection, began_by_page(rows, emptied))
        fresh = fresh_of(rows, stored, known)
        gone = {
            result.fingerprint: result for result in emptied if is_gone(result)
        }  # may come twice
        ended = began_by_page(fresh.rows if self.prunes else [], self._removed(emptied))
        return fresh, News(fresh.rows, stored, [*gone.values()], ended)

    def _note(self, connection: Connection, shape: Shape, news: News) -> None:
        """In the feed of changes."""
        ids = [row.id for row in news.replacing] + list(news.removed)
        old = self._values_of(connection, shape, ids)
        self._feed(connection, shape).note(news, old)
        self.changes = count_changes(connection, self._job)

    def _values_of(
        self, connection: Connection, shape: Shape, ids: Sequence[str]
    ) -> dict[str, Result]:
        """Stored rows, by id."""
        table = self._as_table(shape)
        found: dict[str, Result] = {}
        for start in range(0, len(ids), _IDS):
            part = table.c["_id"].in_(ids[start : start + _IDS])
            query = select(table).where(table.c["_job"] == self._job, part)
            found |= {row[1]: result_in(row, shape.columns) for row in connection.execute(query)}
        return found

    def _known_times(self, connection: Connection, pages: Iterable[str]) -> dict[str, datetime]:
        """When the stored rows of these pages were fetched, by id."""
        quote = quote_of(connection)
        types = Column("_id", Text), Column("_fetched_at", self._dialect.types[Kind.TIME])
        query = text(self._dialect.rows_of_pages.format(table=quote(self._table))).columns(*types)
        found = connection.execute(query, {"pages": json_text(list(pages)), "job": self._job})
        return {row_id: at for row_id, at in found}

    def _known_empty(self, connection: Connection, pages: Iterable[str]) -> dict[str, datetime]:
        """Only a job that prunes notes them, or handles pages again."""
        if not (self.prunes or self._forgets):
            return {}
        return read_emptied(connection, self._table, self._job, list(pages))

    def _prune(self, connection: Connection, shape: Shape, oldest: Mapping[str, datetime]) -> None:
        """Remove what earlier visits stored for these pages and this one did not."""
        if not oldest:
            return
        table, row_id = self._as_table(shape), literal_column(self._dialect.row_id, Text)
        statement = delete(table).where(
            table.c["_job"] == self._job,
            row_id > bindparam("first"),
            row_id < bindparam("last"),
            table.c["_fetched_at"] < bindparam("before"),
        )
        pages = [
            {"first": f"{page}-", "last": f"{page}.", "before": before}
            for page, before in oldest.items()
        ]
        connection.execute(statement, pages)

    def _find_refused(self, rows: list[Row]) -> list[tuple[Result, str]]:
        """Try the rows one by one, without keeping any, to find those that the database refuses."""
        refused: list[tuple[Result, str]] = []
        with self._engine.connect() as connection, connection.begin() as attempt:
            self._dialect.begin_write(connection, self._table, alone=False)
            shape = read_shape(connection, self._table)
            upsert = self._upsert_of(shape)
            for row in rows:
                try:
                    with connection.begin_nested():
                        self._send(connection, upsert, [row])
                except DBAPIError as error:
                    if self._dialect.judge(error) is not FailureKind.ROW:
                        raise
                    refused.append((row.result, self._dialect.explain(error)))
            attempt.rollback()
        return refused

    def _change(self, rows: list[Row]) -> None:
        """Create the table if it does not exist, and make it wide enough for the rows."""
        rows = [row for row in rows if not is_file(row.fields)]
        with self._engine.begin() as connection:
            self._dialect.begin_change(connection, self._table)
            CATALOG.metadata.create_all(connection)
            exists = inspect(connection).has_table(self._table)
            types = take_views(connection, self._table)
            shape = find_shape(connection, self._table, exists=exists)
            if exists:
                self._dialect.index_pages(connection, self._table)
            else:
                types.clear()
                connection.execute(CreateTable(self._as_table(shape)))
            changes = shape.plan(rows, self._dialect.odd_names)
            fresh = {field: c for field, c in changes.items() if field not in shape.columns}
            if fresh:
                note_columns(connection, self._table, fresh)
                self._dialect.add_columns(connection, self._table, list(fresh.values()))
            for field in changes.keys() - fresh.keys():
                self._widen(connection, shape, field, changes[field])
            for name, fields in types_in(rows).items():
                types[name] |= fields
            if types:
                put_views(connection, read_shape(connection, self._table), types)
        self._types = types

    def _widen(self, connection: Connection, shape: Shape, field: str, column: FieldColumn) -> None:
        if column.kind is Kind.FLOAT and self._has_long(connection, shape, field):
            column = FieldColumn(column.name, Kind.TEXT)  # a float would lose digits
        old = shape.columns[field].kind
        self._dialect.widen_column(connection, self._table, column, old)
        note_columns(connection, self._table, {field: column})

    def _has_long(self, connection: Connection, shape: Shape, field: str) -> bool:
        column = self._as_table(shape).c[key_of(list(shape.columns).index(field))]
        query = select(column).where(or_(column > EXACT_IN_FLOAT, column < -EXACT_IN_FLOAT))
        return connection.execute(query.limit(1)).first() is not None

    def _upsert_of(self, shape: Shape) -> _Upsert:
        if self._last is None or self._last.shape != shape:
            upsert = self._dialect.upsert(self._as_table(shape))
            compiled = upsert.compile(dialect=self._engine.dialect)
            self._last = _Upsert(shape, str(compiled))
        return self._last

    def _send(self, connection: Connection, upsert: _Upsert, rows: Sequence[Row]) -> None:
        columns: dict[str, list[Any]] = {
            "_job": [self._job] * len(rows),
            "_id": [row.id for row in rows],
            "_url": [row.url for row in rows],
            "_fetched_at": self._column((row.fetched_at for row in rows), Kind.TIME),
        }
        for number, (field, column) in enumerate(upsert.shape.columns.items()):
            values = (row.fields.get(field) for row in rows)
            columns[key_of(number)] = self._column(values, column.kind)
        values_of = list(zip(*columns.values(), strict=True))
        self._dialect.send(connection, upsert.statement, list(columns), values_of)

    def _column(self, values: Iterable[Any], kind: Kind) -> list[Any]:
        fitted = [fit(value, kind) for value in values]
        change = self._dialect.wire.get(kind)
        if change is None:
            return fitted
        return [None if value is None else change(value) for value in fitted]


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Rows split into statements: PostgreSQL's limit is 1 GB, including values."""
    start = size = 0
    for end, row in enumerate(rows):
        size += len(row.json)
        if size > STATEMENT_BYTES and end > start:
            yield rows[start:end]
            start, size = end, len(row.json)
    if rows:
        yield rows[start:]
