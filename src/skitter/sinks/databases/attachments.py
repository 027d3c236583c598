"""What is known of downloaded files, and which rows name them.

Rows and files arrive in any order: a row is completed with what is known when it is stored, and
with the rest when that comes. Both happen in one transaction with the table to itself.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Table,
    Text,
    column,
    delete,
    insert,
    inspect,
    select,
)
from sqlalchemy import table as named_table

from skitter.model import FILE_KEYS, files_in
from skitter.sinks.columns import text_of
from skitter.sinks.databases.shape import CATALOG, NAME, OF_MYSQL
from skitter.sinks.rows import FILE_TYPE, result_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from skitter.model import Result
    from skitter.sinks.base import Row

AT_ONCE: Final = 1000
#: A file of a job, by its URL.
FILES: Final = Table(
    "_skitter_downloads",
    CATALOG.metadata,
    Column("table_name", NAME, nullable=False),
    Column("job", NAME, nullable=False),
    Column("url", Text, nullable=False),
    Column("path", Text),
    Column("size", BigInteger),
    Column("type", Text),
    Column("sha256", Text),
    Column("page", Text),
    Column("at", Text, nullable=False),
    **OF_MYSQL,
)
#: Rows that name files.
USES: Final = Table(
    "_skitter_download_uses",
    CATALOG.metadata,
    Column("table_name", NAME, nullable=False),
    Column("job", NAME, nullable=False),
    Column("url", Text, nullable=False),
    Column("id", NAME, nullable=False),
    **OF_MYSQL,
)
Index("_skitter_downloads_url", FILES.c.url, mysql_length=255)
Index("_skitter_download_uses_url", USES.c.url, mysql_length=255)


def has_other_file(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a file that was there has another content by now: one that has just come has not."""
    pairs = zip(files_in(old), files_in(new), strict=False)
    return any(was["sha256"] and was["sha256"] != now["sha256"] for was, now in pairs)


def forget_files(connection: Connection, table: str, job: str) -> None:
    """With all rows of the job."""
    for each in (FILES, USES):
        connection.execute(delete(each).where(each.c.table_name == table, each.c.job == job))


def note_files(connection: Connection, table: str, job: str, files: Sequence[Row]) -> set[str]:
    """Note what is known of files, but for what was known later. Returns the ids of stored rows
    that name them."""
    of_job = (FILES.c.table_name == table) & (FILES.c.job == job)
    urls = {row.fields["url"] for row in files}
    stored = connection.execute(
        select(FILES.c.url, FILES.c.at).where(of_job, FILES.c.url.in_(urls))
    )
    last = {url: at for url, at in stored}
    facts: dict[str, dict[str, Any]] = {}
    for row in sorted(files, key=lambda row: row.fetched_at):
        url, at = row.fields["url"], text_of(row.fetched_at)
        if at >= last.get(url, at):
            told = {name: row.fields.get(name) for name in (*FILE_KEYS, "page")}
            facts[url] = {"table_name": table, "job": job, "at": at} | told
    if not facts:
        return set()
    connection.execute(delete(FILES).where(of_job, FILES.c.url.in_(facts)))
    connection.execute(insert(FILES), list(facts.values()))
    uses = select(USES.c.id).where(USES.c.table_name == table, USES.c.job == job)
    return set(connection.execute(uses.where(USES.c.url.in_(facts))).scalars())


def note_uses(connection: Connection, table: str, job: str, rows: Iterable[Row]) -> None:
    """Note which files these rows name."""
    of = {"table_name": table, "job": job}
    uses = [
        {**of, "url": file["url"], "id": row.id} for row in rows for file in files_in(row.fields)
    ]
    if not uses:
        return
    of_rows = (USES.c.table_name == table) & (USES.c.job == job)
    ids = {use["id"] for use in uses}
    connection.execute(delete(USES).where(of_rows, USES.c.id.in_(ids)))
    connection.execute(insert(USES), uses)


def fill_files(connection: Connection, table: str, job: str, rows: Iterable[Row]) -> None:
    """Fill in what is known of the files that these rows name."""
    named: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in (file for row in rows for file in files_in(row.fields)):
        named[file["url"]].append(file)
    known = select(FILES).where(FILES.c.table_name == table, FILES.c.job == job)
    for urls in _pieces(list(named)):
        for fact in connection.execute(known.where(FILES.c.url.in_(urls))).mappings():
            for file in named[fact["url"]]:
                file.update({name: fact[name] for name in FILE_KEYS})


def known_files(connection: Connection, table: str, job: str) -> Iterator[Result]:
    """All of a job, as `note_files` takes them."""
    known = select(FILES).where(FILES.c.table_name == table, FILES.c.job == job)
    for number, fact in enumerate(connection.execute(known).mappings()):
        item = {"_type": FILE_TYPE} | {name: fact[name] for name in (*FILE_KEYS, "page")}
        yield result_of(f"file-{number}", "", datetime.fromisoformat(fact["at"]), item)


def give_again(connection: Connection, job: str, ids: Sequence[str]) -> None:
    """Rows that have changed after their visit, as a file that they name has come: folders that
    have them get them once more, in a later part."""
    if inspect(connection).has_table("_skitter_taken"):
        taken = named_table("_skitter_taken", column("job"), column("id"))
        for some in _pieces(ids):
            connection.execute(delete(taken).where(taken.c.job == job, taken.c.id.in_(some)))


def _pieces(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """One statement takes 32,766 values in SQLite, and 65,535 in PostgreSQL; a page may have
    hundreds of pictures."""
    return (values[start : start + AT_ONCE] for start in range(0, len(values), AT_ONCE))
