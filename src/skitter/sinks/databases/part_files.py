"""Parts: rows of a table on their way to a folder of files that are only ever added.

What is in a part is decided in one transaction, before it is written anywhere: its name, its bytes,
and which rows it has. Whoever is killed after that, the next one writes the same bytes under the
same name. A row that a later visit replaces goes into a later part, once more.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, MetaData, Table, delete, exists, insert, select

from skitter.sinks.columns import Kind
from skitter.sinks.databases.shape import BINARY, NAME, OF_MYSQL
from skitter.sinks.rows import row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skitter.sinks.base import Row
    from skitter.sinks.databases.sql import SqlTable


class Outbox:
    """The parts of one table for one folder."""

    def __init__(self, table: SqlTable, folder: str) -> None:
        self._table, self._folder = table, folder
        metadata, time = MetaData(), table.types[Kind.TIME]
        self._parts = Table(
            "_skitter_parts",
            metadata,
            Column("folder", NAME, primary_key=True),
            Column("name", NAME, primary_key=True),
            Column("body", BINARY, nullable=False),
            **OF_MYSQL,
        )
        self._taken = Table(
            "_skitter_taken",
            metadata,
            Column("folder", NAME, primary_key=True),
            Column("job", NAME, primary_key=True),
            Column("id", NAME, primary_key=True),
            Column("at", time, primary_key=True),  # which visit of the row
            **OF_MYSQL,
        )
        with table.transaction() as (connection, _, _):
            metadata.create_all(connection)

    def waiting(self) -> tuple[str, bytes] | None:
        """A part that was decided; it may be written already."""
        parts = self._parts
        query = select(parts.c.name, parts.c.body).where(parts.c.folder == self._folder)
        with self._table.transaction() as (connection, _, _):
            found = connection.execute(query.order_by(parts.c.name).limit(1)).first()
        return (found[0], found[1]) if found else None

    def written(self, name: str) -> None:
        """Forget its bytes."""
        parts = self._parts
        same = (parts.c.folder == self._folder) & (parts.c.name == name)
        with self._table.transaction() as (connection, _, _):
            connection.execute(delete(parts).where(same))

    def decide(
        self, most: int, suffix: str, encode: Callable[[Mapping[str, Kind], Sequence[Row]], bytes]
    ) -> int:
        """What the next part has, up to so many rows, in the order in which their pages were
        completed. Returns how many; 0: none are left."""
        taken, job = self._taken.c, self._table.job
        with self._table.transaction() as (connection, shape, table):
            same = (taken.id == table.c["_id"]) & (taken.at == table.c["_fetched_at"])
            is_ours = (taken.folder == self._folder) & (taken.job == job)
            query = select(table).where(table.c["_job"] == job, ~exists().where(is_ours, same))
            query = query.order_by(table.c["_fetched_at"], table.c["_id"]).limit(most)
            rows = [
                row_of(result) for result in self._table.results(connection.execute(query), shape)
            ]
            if rows:
                now = datetime.now(UTC)  # later parts have later names
                name = f"{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(6)}{suffix}"
                body = encode(self._table.columns(shape), rows)
                part = {"folder": self._folder, "name": name, "body": body}
                connection.execute(insert(self._parts), [part])
                of: dict[str, Any] = {"folder": self._folder, "job": job}
                ids = [{**of, "id": row.id, "at": row.fetched_at} for row in rows]
                connection.execute(insert(self._taken), ids)
            else:  # visits of rows that have been replaced since: else there is one for each, ever
                is_here = exists().where(table.c["_job"] == job, same)
                connection.execute(delete(self._taken).where(is_ours, ~is_here))
        return len(rows)
