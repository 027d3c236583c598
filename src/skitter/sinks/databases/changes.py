"""Changes: what later visits found, noted in the transaction that stores their rows.

A row that replaces one of an earlier visit is compared with it; a row that was not there is new, if
the job has begun to visit pages again; a page that is gone is noted once. Killed before the commit,
the rows come again and are compared again; after it, they are no news: docs/adr/0081-changes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, delete, func, insert, select

from skitter.sinks.columns import Kind, json_text, text_of
from skitter.sinks.comparison import Change, Noise, differences, plain
from skitter.sinks.databases.attachments import has_other_file
from skitter.sinks.databases.shape import CATALOG, LONG, NAME, OF_MYSQL
from skitter.sinks.rows import ONE_VISIT, page_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from skitter.model import Result
    from skitter.sinks.base import Row

CHANGES: Final = Table(
    "_changes",
    CATALOG.metadata,
    # No number is used twice: who goes on after the last one that he has misses nothing.
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("job", NAME, nullable=False),
    Column("page", NAME, nullable=False),
    Column("kind", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("key", NAME, nullable=False),
    Column("field", LONG, nullable=False),
    Column("old", LONG),
    Column("new", LONG),
    Column("at", Text, nullable=False),
    Index("_changes_of_pages", "job", "page"),
    sqlite_autoincrement=True,
    **OF_MYSQL,
)


class Left(NamedTuple):
    """That a page, or a row of it, is gone."""

    seq: int
    at: datetime
    old: dict[str, Any]  # what the row was


@dataclass(frozen=True, slots=True)
class News:
    """Rows to store, and what is known of their pages."""

    rows: Sequence[Row]
    stored: Mapping[str, datetime]  # when their known rows were fetched
    gone: Sequence[Result]  # notices of pages
    ended: Mapping[str, datetime]  # pages whose older rows are about to be removed

    def __bool__(self) -> bool:
        return bool(self.gone or self.replacing or self.adding or self.removed)

    @property
    def replacing(self) -> list[Row]:
        found = self.stored
        return [row for row in self.rows if found.get(row.id, row.fetched_at) < row.fetched_at]

    @property
    def adding(self) -> list[Row]:
        return [row for row in self.rows if row.id not in self.stored and row.result.is_later]

    @property
    def removed(self) -> dict[str, datetime]:
        """Rows that their pages no longer yield, and when that was found. Not those of pages that
        are gone: their notice says it."""
        gone, kept = {result.fingerprint for result in self.gone}, {row.id for row in self.rows}
        return {
            row_id: self.ended[page]
            for row_id, at in self.stored.items()
            if (page := page_of(row_id)) not in gone and row_id not in kept
            if at < self.ended.get(page, at)
        }

    @property
    def pages(self) -> set[str]:
        return {page_of(row.id) for row in self.rows} | {result.fingerprint for result in self.gone}


@dataclass(slots=True)
class Feed:
    """The feed of a job, in a transaction in which nobody else adds to it."""

    connection: Connection
    job: str
    kinds: Mapping[str, Kind]
    noise: Noise

    def note(self, news: News, old: Mapping[str, Result]) -> None:
        """`old`: the rows that are replaced or removed, by id."""
        left = self._left(news.pages)
        changes: list[dict[str, Any]] = []
        for row in news.replacing:
            gone = left.get((page_of(row.id), ""))
            is_back = gone is not None and gone.at > news.stored[row.id]
            changes += [_of(row, "new")] if is_back else self._differing(row, old[row.id].item)
        for row in news.adding:
            changes += self._added(row, left.get(_place(row)))
        for notice in news.gone:
            changes += _ended(notice, news, left)
        for row_id, at in news.removed.items():
            was = old[row_id]
            changes.append(_entry("gone", row_id, was.url, at, old=self._plain(was.item)))
        if changes:
            rows = [{"job": self.job, **change} for change in changes]
            self.connection.execute(insert(CHANGES), rows)

    def note_files(
        self, rows: Sequence[Row], old: Mapping[str, Mapping[str, Any]], at: datetime
    ) -> None:
        """Of rows whose page is as it was, while a file that they name is not."""
        changes = [
            {"job": self.job, **_of(row, "changed", **difference._asdict()), "at": text_of(at)}
            for row in rows
            for difference in differences(old[row.id], row.fields, self.kinds, self.noise)
            if has_other_file({"": difference.old}, {"": difference.new})
        ]
        if changes:
            self.connection.execute(insert(CHANGES), changes)

    def _added(self, row: Row, gone: Left | None) -> Iterator[dict[str, Any]]:
        """The items of a visit may come in two batches: a row that the first one has removed was
        only replaced."""
        if gone is None or abs(gone.at - row.fetched_at) > 2 * ONE_VISIT:
            yield _of(row, "new")
            return
        self.connection.execute(delete(CHANGES).where(CHANGES.c.seq == gone.seq))
        yield from self._differing(row, gone.old)

    def _differing(self, row: Row, old: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for difference in differences(old, row.fields, self.kinds, self.noise):
            yield _of(
                row, "changed", field=difference.field, old=difference.old, new=difference.new
            )

    def _plain(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: plain(value, self.kinds[name]) for name, value in fields.items()}

    def _left(self, pages: set[str]) -> dict[tuple[str, str], Left]:
        """What is gone of these pages, the last time that it went."""
        c = CHANGES.c
        query = select(c.page, c.key, c.seq, c.at, c.old).where(c.job == self.job, c.kind == "gone")
        found = self.connection.execute(query.where(c.page.in_(pages)).order_by(c.seq))
        return {
            (page, key): Left(seq, datetime.fromisoformat(at), msgspec.json.decode(old or "{}"))
            for page, key, seq, at, old in found
        }


def _ended(
    notice: Result, news: News, left: Mapping[tuple[str, str], Left]
) -> Iterator[dict[str, Any]]:
    """A page that is gone; not if that is noted already, or the page was there again since."""
    at = datetime.fromtimestamp(notice.fetched_at, UTC)
    page = notice.fingerprint
    known = left.get((page, ""))
    later = any(t > at for row_id, t in news.stored.items() if page_of(row_id) == page)
    if not later and not (known and known.at >= at):
        yield _entry("gone", page, notice.url, at)


def _place(row: Row) -> tuple[str, str]:
    page, _, key = row.id.partition("-")
    return page, key


def _of(row: Row, kind: str, **what: Any) -> dict[str, Any]:
    return _entry(kind, row.id, row.url, row.fetched_at, **what)


def _entry(kind: str, row_id: str, url: str, at: datetime, **what: Any) -> dict[str, Any]:
    page, _, key = row_id.partition("-")
    old, new = (None if (v := what.get(name)) is None else json_text(v) for name in ("old", "new"))
    return {
        "page": page, "key": key, "kind": kind, "url": url, "field": what.get("field", ""),
        "old": old, "new": new, "at": text_of(at),
    }  # fmt: skip


def read_changes(
    connection: Connection, job: str, *, after: int, before: int | None, since: str, limit: int
) -> list[Change]:
    """The entries after a number, oldest first; or before one, newest first."""
    seq = CHANGES.c.seq
    shown = [CHANGES.c[name] for name in Change.__struct_fields__]
    query = select(*shown).where(CHANGES.c.job == job, seq > after, CHANGES.c.at >= since)
    if before is not None:
        query = query.where(seq < before)
    query = query.order_by(seq if before is None else seq.desc()).limit(limit)
    return [
        Change(**{**row._mapping, "old": _opened(row.old), "new": _opened(row.new)})
        for row in connection.execute(query)
    ]


def _opened(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def count_changes(connection: Connection, job: str) -> int:
    query = select(func.count()).select_from(CHANGES).where(CHANGES.c.job == job)
    return int(connection.execute(query).scalar_one())


def forget_changes(connection: Connection, job: str) -> None:
    connection.execute(delete(CHANGES).where(CHANGES.c.job == job))
