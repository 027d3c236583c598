"""Marks: what a database remembers of a job besides its rows, in two tables of ours.

Which pages had no items at their last visit: rows of earlier visits may still be on their way. And
which crawl the rows are of: `--fresh` removes them and begins the next one, after which a loader of
the crawl before must not write.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import Column, Integer, Table, Text, delete, insert, select

from skitter.sinks.base import BadSink
from skitter.sinks.kinds import text_of
from skitter.sinks.shape import CATALOG

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sqlalchemy import Connection

EMPTIED: Final = Table(
    "_skitter_emptied",
    CATALOG.metadata,
    Column("table_name", Text, primary_key=True),
    Column("job", Text, primary_key=True),
    Column("page", Text, primary_key=True),
    Column("at", Text, nullable=False),
)
CRAWLS: Final = Table(
    "_skitter_crawls",
    CATALOG.metadata,
    Column("table_name", Text, primary_key=True),
    Column("job", Text, primary_key=True),
    Column("crawl", Integer, nullable=False),
)


def _of(marks: Table, table: str, job: str) -> Any:
    return (marks.c.table_name == table) & (marks.c.job == job)


def read_emptied(
    connection: Connection, table: str, job: str, pages: list[str]
) -> dict[str, datetime]:
    """When these pages were found to have no items."""
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
    """Raises BadSink. An older one is fine: the database was replaced."""
    if read_crawl(connection, table, job) > ours:
        raise BadSink(
            f"the rows of {job!r} were removed by --fresh after this loader began: what it had "
            "read is of the earlier crawl. Start it again."
        )


def begin_crawl(connection: Connection, table: str, job: str) -> int:
    """The rows were removed."""
    crawl = read_crawl(connection, table, job) + 1
    for marks in (EMPTIED, CRAWLS):
        connection.execute(delete(marks).where(_of(marks, table, job)))
    connection.execute(insert(CRAWLS), [{"table_name": table, "job": job, "crawl": crawl}])
    return crawl
