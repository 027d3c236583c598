"""Visits: a row is replaced only by a later visit to its page, in whatever order rows arrive.

Loaders take over what dead ones held, so rows of an earlier visit may come after those of a later.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skitter.model import Result
    from skitter.sinks.base import Row

#: Two visits to a page are at least this far apart; the items of one may be less than that apart.
ONE_VISIT = timedelta(seconds=1)


class Fresh(NamedTuple):
    """The rows of a batch to write, and how many of them replace others."""

    rows: list[Row]
    updated: int


def page_of(row_id: str) -> str:
    """The fingerprint, without the numbers of an item and of a transform."""
    return row_id.partition("-")[0]


def fresh_of(
    rows: Sequence[Row],
    stored: Mapping[str, datetime],
    emptied: Mapping[str, datetime] | None = None,
) -> Fresh:
    """Leave out rows of visits before the last one that is known. `stored`: when known rows of
    these pages were fetched, by id; `emptied`: when a visit found that a page has no items."""
    began = dict(emptied or {})
    for row_id, at in stored.items():
        page = page_of(row_id)
        began[page] = max(at - ONE_VISIT, began.get(page, at - ONE_VISIT))
    kept = [row for row in rows if row.result.is_part or not _is_old(row, began)]
    kept = [row for row in kept if row.fetched_at >= stored.get(row.id, row.fetched_at)]
    updated = sum(1 for row in kept if stored.get(row.id, row.fetched_at) < row.fetched_at)
    return Fresh(kept, updated)


def _is_old(row: Row, began: Mapping[str, datetime]) -> bool:
    return row.fetched_at < began.get(page_of(row.id), row.fetched_at)


def began_by_page(rows: Iterable[Row], emptied: Iterable[Result]) -> dict[str, datetime]:
    """When the last visit to each page began: anything older belongs to an earlier visit."""
    found = [(row.result, row.fetched_at) for row in rows]
    found += [(one, datetime.fromtimestamp(one.fetched_at, UTC)) for one in emptied]
    began: dict[str, datetime] = {}
    for one, ended_at in found:
        page = page_of(one.fingerprint)
        at = ended_at if one.is_notice else ended_at - ONE_VISIT
        began[page] = max(at, began.get(page, at))
    return began
