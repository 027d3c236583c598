"""From a result to a row: flat, named and typed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.model import Result
from skitter.sinks.base import Row, RowsRefused
from skitter.sinks.kinds import utc
from skitter.sinks.names import safe_field

if TYPE_CHECKING:
    from collections.abc import Iterable

VALUE = "value"  # the field of an item that is not a dict

#: Below the limits of SQLite (2,000) and PostgreSQL (1,600). A row that wide is nearly always a
#: dict whose keys are data; as the value of one field it becomes JSON, which has no such limit.
MAX_COLUMNS = 1000


def rows_of(results: Iterable[Result]) -> list[Row]:
    """The rows sorted by id, the latest one for each id. Or RowsRefused."""
    rows: dict[str, Row] = {}
    refused: list[tuple[Result, str]] = []
    for result in results:
        try:
            row = row_of(result)
        except (TypeError, ValueError, RecursionError) as error:
            refused.append((result, str(error)))
        else:
            known = rows.setdefault(row.id, row)
            if known.fetched_at <= row.fetched_at:
                rows[row.id] = row
    if refused:
        raise RowsRefused(refused)
    # Sorted, so that two loaders that write the same rows do not deadlock.
    return sorted(rows.values(), key=lambda row: row.id)


def row_of(result: Result) -> Row:
    """One row; TypeError, ValueError or RecursionError if the item cannot be stored as data."""
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
