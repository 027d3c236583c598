"""Views: where a job's items are of several types, its table gets a view of each. `shop_book` shows
the books of `shop`, with the columns that they fill."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sqlalchemy import Column, Table, Text, delete, insert, inspect, select
from sqlalchemy.exc import DBAPIError

from skitter.sinks.names import OWN, TYPE, table_name
from skitter.sinks.shape import CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from skitter.sinks.base import Row
    from skitter.sinks.shape import Shape

#: The fields of each type that a table has met.
VIEWS: Final = Table(
    "_skitter_views",
    CATALOG.metadata,
    Column("table_name", Text, primary_key=True),
    Column("type", Text, primary_key=True),
    Column("field", Text, primary_key=True),
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
    quote = connection.dialect.identifier_preparer.quote_identifier
    for name in known:
        with suppress(DBAPIError), connection.begin_nested():
            if (view := view_name(table, name)) in there:
                connection.exec_driver_sql(f"DROP VIEW {quote(view)}")
            ours = (VIEWS.c.table_name == table) & (VIEWS.c.type == name)
            connection.execute(delete(VIEWS).where(ours))
    return known


def put_views(connection: Connection, shape: Shape, types: Types) -> None:
    """Create them again. Not where the name is taken, or the user may not: rows come first."""
    for name, fields in list(types.items())[:MOST]:
        with suppress(DBAPIError), connection.begin_nested():
            connection.exec_driver_sql(_definition(connection, shape, name, fields))
            noted = [{"table_name": shape.table, "type": name, "field": one} for one in fields]
            connection.execute(insert(VIEWS), noted)


def view_name(table: str, name: str) -> str:
    return table_name(f"{table}_{name}")


def _definition(connection: Connection, shape: Shape, name: str, fields: set[str]) -> str:
    quote = connection.dialect.identifier_preparer.quote_identifier
    shown = [column.name for field, column in shape.columns.items() if field in fields - {TYPE}]
    columns = ", ".join(quote(column) for column in [*OWN, *shown])
    view, table = quote(view_name(shape.table, name)), quote(shape.table)
    is_type = f"{quote(shape.columns[TYPE].name)} = '{name}'"
    return f"CREATE VIEW {view} AS SELECT {columns} FROM {table} WHERE {is_type}"
