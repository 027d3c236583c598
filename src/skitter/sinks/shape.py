"""The shape of a table: which column holds which field, and its kind.

It is kept in the database itself, in `_skitter_columns`: field names survive any renaming, columns
that the owner added are distinguishable from ours, and all loaders agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    Column,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    inspect,
    select,
    text,
)

from skitter.sinks.base import BadSink, Row, RowsRefused
from skitter.sinks.kinds import Kind, kind_of, widen
from skitter.sinks.names import MAX_NAME_BYTES, OWN, column_name
from skitter.sinks.rows import MAX_COLUMNS, too_wide

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from skitter.model import Result

CATALOG: Final = Table(
    "_skitter_columns",
    MetaData(),
    Column("table_name", Text, primary_key=True),
    Column("column_name", Text, primary_key=True),
    Column("field", Text, nullable=False),
    Column("kind", Text, nullable=False),
)


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """The column of a field."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Shape:
    """A table's current columns."""

    table: str
    columns: dict[str, FieldColumn] = field(default_factory=dict)  # by field
    names: frozenset[str] = frozenset()  # of all columns, ours or not

    def plan(self, rows: list[Row]) -> dict[str, FieldColumn]:
        """The columns to add or widen before these rows fit, by field; or RowsRefused."""
        wanted: dict[str, Kind] = {}
        refused: list[tuple[Result, str]] = []
        room = MAX_COLUMNS + len(OWN) - len(self.names)
        for row in rows:
            kinds = self._widened(row, wanted)
            if kinds and len(self._fresh(wanted | kinds)) > room:
                fresh = len(self._fresh(kinds))
                refused.append((row.result, too_wide(f"it adds {fresh:,} columns to the table")))
            else:
                wanted |= kinds
        if refused:
            raise RowsRefused(refused)
        return self._placed(wanted)

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

    def _placed(self, wanted: dict[str, Kind]) -> dict[str, FieldColumn]:
        taken = {name.casefold() for name in self.names}
        placed: dict[str, FieldColumn] = {}
        for name, kind in wanted.items():
            known = self.columns.get(name)
            if known and known.kind is Kind.INT and kind is Kind.LONG:
                continue  # the same type in the database
            place = FieldColumn(known.name if known else column_name(name, taken), kind)
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
    if not plain or name.lower().startswith(("sqlite_", "_skitter_")):
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
    quoted = connection.dialect.identifier_preparer.quote_identifier(table)
    return list(connection.execute(text(f"SELECT * FROM {quoted} LIMIT 0")).keys())
