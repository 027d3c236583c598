"""Tables of databases: their columns, our marks, the views of types; and dialects."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias

from sqlalchemy import (
    Column,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError

from skitter.model import TYPE
from skitter.sinks.base import BadSink, Row, RowsRefused
from skitter.sinks.columns import (
    MAX_NAME_BYTES,
    ODD,
    OWN,
    Kind,
    column_name,
    kind_of,
    table_name,
    text_of,
    widen,
)
from skitter.sinks.rows import MAX_COLUMNS, too_wide

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import URL, Connection, Engine, Insert
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.types import TypeEngine

    from skitter.model import Result


#: The values of a row, in the order of its columns.
Values: TypeAlias = tuple[Any, ...]


_UNCLEAR: Final = "in the password of a database, write / as %2F, ? as %3F, # as %23 and @ as %40"


def parse_dsn(dsn: str, *, otherwise: str) -> URL:
    """The address of a database. Raises BadSink, also if half of a password would be taken for a
    host, or half of an address for a password. `otherwise`: what to say of no address at all."""
    try:
        url = make_url(dsn)
    except (ArgumentError, ValueError) as error:
        raise BadSink(otherwise) from error
    login, _, rest = dsn.partition("://")[2].partition("@")
    is_split = set("/?#") & set(login) or (":" in login and "@" in rest)
    if (url.username is not None and is_split) or "@" in f"{url.host}{url.database}":
        raise BadSink(_UNCLEAR)
    return url


class FailureKind(Enum):
    """What a database error means for a batch."""

    AWAY = auto()  # may succeed later
    MOVED = auto()  # the table has changed: look again
    ROW = auto()  # one of the rows can never be stored
    ALIEN = auto()  # not one of our databases
    BUG = auto()


class Dialect(Protocol):
    """What differs between the databases that sql.py writes to, with defaults for the common
    case."""

    name: str
    away: str  # what to say when it accepts no rows
    types: ClassVar[dict[Kind, TypeEngine[Any]]]
    wire: ClassVar[dict[Kind, Callable[[Any], Any]]]  # converts kinds before they are sent
    rows_of_pages: ClassVar[str]  # a query; `pages` is a JSON list
    row_id: ClassVar[str] = "_id"  # as it compares byte by byte
    id_type: ClassVar[TypeEngine[Any]] = Text()
    odd_names: ClassVar[re.Pattern[str]] = ODD  # what names of columns may not contain

    def open(self) -> Engine: ...

    def require(self) -> None:
        """Raise BadSink if there is nothing to read from."""
        return None

    def refresh(self, engine: Engine) -> None:
        """Drop a connection that is no longer valid."""
        return None

    def clean(self, row: Row) -> Row:
        """The row, without what the database cannot hold."""
        return row

    def insert_into(self, table: Table) -> Any:
        """The database's own multi-row INSERT."""

    def upsert(self, table: Table) -> Insert:
        """A row that comes again replaces the stored one, including fields it no longer has;
        columns that the table's owner added are left alone. The time is compared here too: another
        loader may have stored a later visit since we looked."""
        insert = self.insert_into(table)
        changes = {
            column: insert.excluded[column.key] for column in table.c if not column.primary_key
        }
        upsert: Insert = insert.on_conflict_do_update(
            index_elements=["_job", "_id"],
            set_=changes,
            where=insert.excluded["_fetched_at"] >= table.c["_fetched_at"],
        )
        return upsert

    def send(
        self, connection: Connection, upsert: str, names: Sequence[str], rows: list[Values]
    ) -> None:
        """Run the statement for these rows."""

    def begin_write(self, connection: Connection, table: str, *, alone: bool) -> None:
        """Freeze the table's shape until the transaction ends. `alone`: nobody else writes it."""
        return None

    def begin_feed(self, connection: Connection) -> None:
        """Keep others from adding to the feed of changes until the transaction ends, so that its
        numbers appear in their order."""
        return None

    def begin_change(self, connection: Connection, table: str) -> None:
        """Keep others from changing the shape until the transaction ends."""
        return None

    def index_pages(self, connection: Connection, table: str) -> None:
        """Index a table of an earlier release, to find the rows of a page."""
        return None

    def add_columns(
        self, connection: Connection, table: str, columns: Sequence[FieldColumn]
    ) -> None:
        quote = quote_of(connection)
        added = (
            f"ADD COLUMN {quote(column.name)} {self.declared(connection, column.kind)}"
            for column in columns
        )
        connection.exec_driver_sql(f"ALTER TABLE {quote(table)} {', '.join(added)}")

    def declared(self, connection: Connection, kind: Kind) -> str:
        """The type of a column, in SQL."""
        return self.types[kind].compile(connection.dialect)

    def widen_column(
        self, connection: Connection, table: str, column: FieldColumn, old: Kind
    ) -> None: ...

    def judge(self, error: DBAPIError) -> FailureKind: ...

    def explain(self, error: SQLAlchemyError) -> str:
        """The reason in one line, without the statement and its values."""
        reason = str(getattr(error, "orig", None) or error).strip()
        return reason.splitlines()[0] if reason else type(error).__name__


def quote_of(connection: Connection) -> Callable[[str], str]:
    """How names are written there."""
    return connection.dialect.identifier_preparer.quote_identifier


#: MySQL indexes only text of a limited length, and cuts longer text than 64 KB. A database of its
#: may have a character set that does not hold all text.
NAME: Final = Text().with_variant(String(255), "mysql")
LONG: Final = Text().with_variant(Text(2**24), "mysql")
BINARY: Final = LargeBinary().with_variant(LargeBinary(2**31), "mysql")
OF_MYSQL: Final[dict[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}

CATALOG: Final = Table(
    "_skitter_columns",
    MetaData(),
    Column("table_name", NAME, primary_key=True),
    Column("column_name", NAME, primary_key=True),
    Column("field", LONG, nullable=False),
    Column("kind", Text, nullable=False),
    **OF_MYSQL,
)


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """The column of a field."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Shape:
    """A table's current columns: which holds which field, and its kind.

    It is kept in the database itself, in `_skitter_columns`: field names survive any renaming,
    columns that the owner added are distinguishable from ours, and all loaders agree.
    """

    table: str
    columns: dict[str, FieldColumn] = field(default_factory=dict)  # by field
    names: frozenset[str] = frozenset()  # of all columns, ours or not

    def plan(self, rows: list[Row], odd: re.Pattern[str] = ODD) -> dict[str, FieldColumn]:
        """The columns to add or widen before these rows fit, by field; or RowsRefused."""
        wanted: dict[str, Kind] = {}
        refused: list[tuple[Result, str]] = []
        room = MAX_COLUMNS + len(OWN) - len(self.names)
        for row in rows:
            kinds = self._widened(row, wanted)
            if kinds and len(self._fresh(wanted | kinds)) > room:
                fresh = len(self._fresh(kinds))
                refused.append(
                    (row.result, too_wide(f"it would add {fresh:,} columns to the table"))
                )
            else:
                wanted |= kinds
        if refused:
            raise RowsRefused(refused)
        return self._placed(wanted, odd)

    def _widened(self, row: Row, wanted: dict[str, Kind]) -> dict[str, Kind]:
        """The kinds that this row would change."""
        changed: dict[str, Kind] = {}
        for name, value in row.fields.items():
            known = self.columns.get(name)
            before = wanted.get(name) or (known.kind if known else Kind.NULL)
            after = widen(before, kind_of(value))
            if after is not before:
                changed[name] = after
        return changed

    def _fresh(self, kinds: dict[str, Kind]) -> list[str]:
        return [name for name in kinds if name not in self.columns]

    def _placed(self, wanted: dict[str, Kind], odd: re.Pattern[str]) -> dict[str, FieldColumn]:
        taken = {name.casefold() for name in self.names}
        placed: dict[str, FieldColumn] = {}
        for name, kind in wanted.items():
            known = self.columns.get(name)
            if known and known.kind is Kind.INT and kind is Kind.LONG:
                continue  # the same type in the database
            place = FieldColumn(known.name if known else column_name(name, taken, odd), kind)
            taken.add(place.name.casefold())
            placed[name] = place
        return placed


def read_shape(connection: Connection, table: str) -> Shape:
    """The current shape; a database error if the table or the catalog does not exist yet."""
    return _shape(connection, table, _column_names(connection, table))


def find_shape(connection: Connection, table: str, *, exists: bool) -> Shape:
    """The same, if the catalog exists but the table may not; BadSink if it is not ours."""
    if not exists:
        # Somebody dropped the table: its old shape means nothing for the next one.
        connection.execute(delete(CATALOG).where(CATALOG.c.table_name == table))
        return Shape(table)
    names = _column_names(connection, table)
    is_view = table in inspect(connection).get_view_names()  # perhaps of a type of another job
    if is_view or not set(OWN) <= set(names):
        what = "is a view" if is_view else "was not created by Skitter"
        raise BadSink(
            f"{table!r} already exists and {what}, so it cannot be the table of this job: "
            "choose another database, or another name for the job."
        )
    return _shape(connection, table, names)


def note_columns(connection: Connection, table: str, columns: dict[str, FieldColumn]) -> None:
    """Record new or changed columns of fields."""
    same = (CATALOG.c.table_name == table) & (CATALOG.c.column_name == bindparam("name"))
    places = columns.items()
    connection.execute(delete(CATALOG).where(same), [{"name": c.name} for _, c in places])
    connection.execute(
        insert(CATALOG),
        [
            {"table_name": table, "column_name": c.name, "field": field, "kind": c.kind.value}
            for field, c in places
        ],
    )


def check_table(name: str) -> str:
    """Return the name unchanged, or raise BadSink."""
    plain = name.replace("_", "a").isalnum() and len(name.encode()) <= MAX_NAME_BYTES
    if not plain or name.lower().startswith(("sqlite_", "_skitter_", "_changes")):
        raise BadSink(
            f"{name[:100]!r} cannot be the name of a table here: use letters, digits and '_', "
            f"at most {MAX_NAME_BYTES} bytes."
        )
    return name


def _shape(connection: Connection, table: str, names: list[str]) -> Shape:
    """The fields, in the order of the table's columns."""
    query = select(CATALOG.c.field, CATALOG.c.column_name, CATALOG.c.kind)
    found = connection.execute(query.where(CATALOG.c.table_name == table))
    known = {column: (name, _kind(kind, table)) for name, column, kind in found}
    columns = {
        known[column][0]: FieldColumn(column, known[column][1])
        for column in names
        if column in known
    }
    return Shape(table, columns, frozenset(names))


def _kind(name: str, table: str) -> Kind:
    try:
        return Kind(name)
    except ValueError:
        raise BadSink(
            f"a column of the table {table!r} has the kind {name[:40]!r}, which this release does "
            "not know: use the release of Skitter that wrote it, or choose another database."
        ) from None


def _column_names(connection: Connection, table: str) -> list[str]:
    quoted = quote_of(connection)(table)
    return list(connection.execute(text(f"SELECT * FROM {quoted} LIMIT 0")).keys())


EMPTIED: Final = Table(
    "_skitter_emptied",
    CATALOG.metadata,
    Column("table_name", NAME, primary_key=True),
    Column("job", NAME, primary_key=True),
    Column("page", NAME, primary_key=True),
    Column("at", Text, nullable=False),
    **OF_MYSQL,
)
CRAWLS: Final = Table(
    "_skitter_crawls",
    CATALOG.metadata,
    Column("table_name", NAME, primary_key=True),
    Column("job", NAME, primary_key=True),
    Column("crawl", Integer, nullable=False),
    **OF_MYSQL,
)


def _of(marks: Table, table: str, job: str) -> Any:
    return (marks.c.table_name == table) & (marks.c.job == job)


def read_emptied(
    connection: Connection, table: str, job: str, pages: list[str]
) -> dict[str, datetime]:
    """When these pages were found to have no items: rows of earlier visits may still be on their
    way."""
    query = select(EMPTIED.c.page, EMPTIED.c.at).where(_of(EMPTIED, table, job))
    found = connection.execute(query.where(EMPTIED.c.page.in_(pages)))
    return {page: datetime.fromisoformat(at) for page, at in found}


def note_emptied(
    connection: Connection, table: str, job: str, pages: Mapping[str, datetime]
) -> None:
    """Replace what is known of these pages."""
    if not pages:
        return
    old = _of(EMPTIED, table, job) & EMPTIED.c.page.in_(list(pages))
    connection.execute(delete(EMPTIED).where(old))
    of = {"table_name": table, "job": job}
    rows = [{**of, "page": page, "at": text_of(at)} for page, at in pages.items()]
    connection.execute(insert(EMPTIED), rows)


def read_crawl(connection: Connection, table: str, job: str) -> int:
    """How many times the rows of the job were removed."""
    query = select(CRAWLS.c.crawl).where(_of(CRAWLS, table, job))
    return connection.execute(query).scalar() or 0


def check_crawl(connection: Connection, table: str, job: str, *, ours: int) -> None:
    """Raises BadSink if the rows are of a newer crawl.

    `--fresh` removes rows and begins the next crawl, after which a loader of the crawl before must
    not write. A table of an older one is fine: the database was replaced.
    """
    if read_crawl(connection, table, job) > ours:
        raise BadSink(
            f"the rows of {job!r} were removed by --fresh after this loader began, so what it "
            "has read is of the earlier crawl: start it again."
        )


def begin_crawl(connection: Connection, table: str, job: str) -> int:
    """The rows were removed."""
    crawl = read_crawl(connection, table, job) + 1
    for marks in (EMPTIED, CRAWLS):
        connection.execute(delete(marks).where(_of(marks, table, job)))
    connection.execute(insert(CRAWLS), [{"table_name": table, "job": job, "crawl": crawl}])
    return crawl


#: The fields of each type that a table has met.
VIEWS: Final = Table(
    "_skitter_views",
    CATALOG.metadata,
    Column("table_name", NAME, primary_key=True),
    Column("type", NAME, primary_key=True),
    Column("field", NAME, primary_key=True),
    **OF_MYSQL,
)

Types = dict[str, set[str]]
MOST: Final = 50  # somebody's own field may be called `_type` too, and hold anything


def types_in(rows: Iterable[Row]) -> Types:
    """The types of these rows, and the fields that they fill."""
    found: Types = defaultdict(set)
    for row in rows:
        name = row.fields.get(TYPE)
        if isinstance(name, str) and name.isidentifier():
            found[name].update(field for field, value in row.fields.items() if value is not None)
    return found


def has_news(types: Types, known: Types) -> bool:
    """Whether a type, or a field of it, is in no view yet."""
    if len(known) >= MOST:
        return False
    return any(fields - known.get(name, set()) for name, fields in types.items())


def take_views(connection: Connection, table: str) -> Types:
    """Drop the views of a table, as PostgreSQL changes no column that a view shows. Those that
    somebody built upon stay."""
    known: Types = defaultdict(set)
    query = select(VIEWS.c.type, VIEWS.c.field).where(VIEWS.c.table_name == table)
    for name, filled in connection.execute(query):
        known[name].add(filled)
    there = set(inspect(connection).get_view_names()) if known else set()
    quote = quote_of(connection)
    for name in known:
        with _attempt(connection):
            if (view := view_name(table, name)) in there:
                connection.exec_driver_sql(f"DROP VIEW {quote(view)}")
            ours = (VIEWS.c.table_name == table) & (VIEWS.c.type == name)
            connection.execute(delete(VIEWS).where(ours))
    return known


@contextmanager
def _attempt(connection: Connection) -> Iterator[None]:
    """Undone if it fails; not in MySQL, which commits before a view changes."""
    undo = nullcontext() if connection.dialect.name == "mysql" else connection.begin_nested()
    with suppress(DBAPIError), undo:
        yield


def put_views(connection: Connection, shape: Shape, types: Types) -> None:
    """Create the views of a table again: one for each type, where its items are of several.

    `shop_book` shows the books of `shop`, with the columns that they fill. Not where the name is
    taken, or the user may not: rows come first.
    """
    for name, fields in list(types.items())[:MOST]:
        with _attempt(connection):
            connection.exec_driver_sql(_definition(connection, shape, name, fields))
            noted = [{"table_name": shape.table, "type": name, "field": one} for one in fields]
            connection.execute(insert(VIEWS), noted)


def view_name(table: str, name: str) -> str:
    return table_name(f"{table}_{name}")


def _definition(connection: Connection, shape: Shape, name: str, fields: set[str]) -> str:
    quote = quote_of(connection)
    shown = [column.name for field, column in shape.columns.items() if field in fields - {TYPE}]
    columns = ", ".join(quote(column) for column in [*OWN, *shown])
    view, table = quote(view_name(shape.table, name)), quote(shape.table)
    is_type = f"{quote(shape.columns[TYPE].name)} = '{name}'"
    return f"CREATE VIEW {view} AS SELECT {columns} FROM {table} WHERE {is_type}"
