"""Rows: made from results, and replaced only by later visits."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from skitter.model import FILE_KEYS, Result
from skitter.sinks.base import Row, RowsRefused
from skitter.sinks.columns import safe_field, utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


#: What `row_of` raises.
NOT_A_ROW: Final = (TypeError, ValueError, RecursionError)
VALUE = "value"  # the field of an item that is not a dict

#: Below the limits of SQLite (2,000) and PostgreSQL (1,600). A row that wide is nearly always a
#: dict whose keys are data; as the value of one field it becomes JSON, which has no such limit.
MAX_COLUMNS = 1000


def rows_of(results: Iterable[Result]) -> list[Row]:
    """The rows in order of arrival, the latest one for each id. Or RowsRefused."""
    rows: dict[str, Row] = {}
    refused: list[tuple[Result, str]] = []
    for result in results:
        try:
            row = row_of(result)
        except NOT_A_ROW as error:
            refused.append((result, str(error)))
        else:
            known = rows.setdefault(row.id, row)
            if known.fetched_at <= row.fetched_at:
                rows[row.id] = row
    if refused:
        raise RowsRefused(refused)
    return [*rows.values()]


def row_of(result: Result) -> Row:
    """One row, flat, named and typed; TypeError, ValueError or RecursionError if the item cannot be
    stored as data."""
    item = _plain(result.item)
    fields = item if isinstance(item, dict) else {VALUE: item}
    fields = {safe_field(name): _settle(value) for name, value in fields.items()}
    if len(fields) > MAX_COLUMNS:
        raise ValueError(too_wide(f"it has {len(fields):,} fields"))
    row_id = f"{result.fingerprint}-{result.index}"
    fetched_at = datetime.fromtimestamp(result.fetched_at, UTC)
    json = msgspec.json.encode((result.url, fields))  # raises for invalid Unicode
    return Row(row_id, result.url, fetched_at, fields, json, result)


def too_wide(what: str) -> str:
    """Why a row does not fit, and what to do."""
    return (
        f"{what}, but a table holds at most {MAX_COLUMNS:,} columns: put variable keys into "
        "one field, as a dict: it becomes a JSON column."
    )


#: What a worker tells of a file that it downloaded: spider/named_files.py.
FILE_TYPE: Final = "file"


def is_file(item: Any) -> bool:
    """Whether it tells of a file, and is no item of a handler."""
    return isinstance(item, dict) and item.get("_type") == FILE_TYPE and item.keys() >= FILE_KEYS


def result_of(row_id: str, url: str, fetched_at: datetime, item: dict[str, Any]) -> Result:
    """The inverse, for copying from one sink to another: the row keeps its id."""
    fingerprint, _, index = row_id.rpartition("-")
    return Result(
        id="",
        fingerprint=fingerprint,
        index=int(index),
        url=url,
        item=item,
        fetched_at=fetched_at.timestamp(),
    )


def _plain(item: Any) -> Any:
    """Convert dataclasses, structs, sets, decimals and the like to types of JSON and SQL."""
    try:
        return _to_builtins(item)
    except TypeError:
        return _to_builtins(_with_text_keys(item))  # msgspec accepts only text and numbers as keys


def _to_builtins(item: Any) -> Any:
    return msgspec.to_builtins(item, builtin_types=(bytes, datetime, date), str_keys=True)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(key): _with_text_keys(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_text_keys(each) for each in value]
    return value


def _settle(value: Any) -> Any:
    if isinstance(value, datetime):
        try:
            return utc(value)
        except OverflowError:  # in the first or last hours of the calendar
            return value.isoformat()
    return value


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
    """Leave out rows of visits before the last one that is known.

    Loaders take over what dead ones held, so rows of an earlier visit may come after those of a
    later. `stored`: when known rows of these pages were fetched, by id; `emptied`: when a visit
    found that a page has no items.
    """
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
    found += [(result, datetime.fromtimestamp(result.fetched_at, UTC)) for result in emptied]
    began: dict[str, datetime] = {}
    for one, ended_at in found:
        page = page_of(one.fingerprint)
        at = ended_at if one.is_notice else ended_at - ONE_VISIT
        began[page] = max(at, began.get(page, at))
    return began
