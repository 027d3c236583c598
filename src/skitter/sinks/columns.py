"""Columns: their names, and the kinds of their values."""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import UTC, date, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection


class Kind(StrEnum):
    """What a column holds.

        NULL < BOOL, INT, BYTES, TIME, DATE < TEXT < JSON
        INT < LONG < TEXT, INT < FLOAT < TEXT

    `widen` goes up this order just far enough for two kinds, `fit` converts a value to a column's.
    """

    NULL = "null"  # nothing yet
    BOOL = "bool"
    INT = "int"  # exact as a float
    LONG = "long"  # 64 bits, more digits than a float holds
    FLOAT = "float"
    TEXT = "text"
    BYTES = "bytes"
    TIME = "time"  # an instant, in UTC
    DATE = "date"
    JSON = "json"  # lists and dicts, alone or mixed with other types


EXACT_IN_FLOAT = 2**53
_KINDS: dict[type, Kind] = {
    type(None): Kind.NULL,
    bool: Kind.BOOL,
    float: Kind.FLOAT,
    str: Kind.TEXT,
    bytes: Kind.BYTES,
    datetime: Kind.TIME,
    date: Kind.DATE,
}


def kind_of(value: Any) -> Kind:
    """The narrowest kind that holds the value."""
    if type(value) is int:
        if -EXACT_IN_FLOAT <= value <= EXACT_IN_FLOAT:
            return Kind.INT
        return Kind.LONG if -(2**63) <= value < 2**63 else Kind.TEXT
    return _KINDS.get(type(value), Kind.JSON)


def widen(kind: Kind, other: Kind) -> Kind:
    """The narrowest kind that holds the values of both."""
    if kind is other:
        return kind
    pair = {kind, other} - {Kind.NULL}
    if len(pair) == 1:
        return pair.pop()
    if Kind.JSON in pair:
        return Kind.JSON
    if pair == {Kind.INT, Kind.LONG}:
        return Kind.LONG
    return Kind.FLOAT if pair == {Kind.INT, Kind.FLOAT} else Kind.TEXT


def fit(value: Any, kind: Kind) -> Any:
    """The value converted for a column of that kind."""
    if value is None:
        return None
    if kind is Kind.TEXT:
        return text_of(value)
    if kind is Kind.JSON:
        return text_of(value) if isinstance(value, bytes | date) else value
    return float(value) if kind is Kind.FLOAT else value


def text_of(value: Any) -> str:
    """The value as text: for files, and for columns of mixed types."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        # Always six decimals, so that sorting the texts sorts the times.
        text: str = msgspec.to_builtins(utc(value))  # 15 times as fast as strftime
        return text if "." in text else text.replace("Z", ".000000Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return json_text(value)


def json_text(value: Any) -> str:
    """JSON on one line. NaN and the infinities, which JSON lacks, become null."""
    return msgspec.json.encode(value).decode()


def utc(moment: datetime) -> datetime:
    """The time in UTC; a time without a zone is taken to be UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


OWN: Final = ("_job", "_id", "_url", "_fetched_at")

MAX_NAME_BYTES: Final = 63  # PostgreSQL silently truncates longer names

# PostgreSQL: every table already has these columns.
_SYSTEM: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
# Control characters, lone surrogates, and "%(": SQLAlchemy 2.0 mistakes %(x)s in a quoted name for
# a parameter.
ODD: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|%(?=\()")


def safe_field(field: str) -> str:
    """The field's name, changed if it is one of ours."""
    return _marked(field, field) if field in OWN else field


def column_name(field: str, taken: Collection[str], odd: re.Pattern[str] = ODD) -> str:
    """A column for the field. `taken`: the names of the other columns, case folded.

    The field's own name where that works. Else its readable part and a few digits that depend on
    the field alone, so that loaders elsewhere choose the same name.
    """
    stem = _cut(odd.sub("_", field), MAX_NAME_BYTES)
    if not stem.strip():
        stem = "field"
    usable = stem == field and stem.casefold() not in _SYSTEM
    # SQLite, and people who type SQL without quotes, do not distinguish Name from name.
    if usable and stem.casefold() not in taken:
        return stem
    for digits in (6, 12, 24):
        name = _marked(stem, field, digits)
        if name.casefold() not in taken:
            return name
    raise ValueError(f"no column name is free for the field {field[:60]!r}")


def table_name(job: str) -> str:
    """The default table of a job; mostly a name that needs no quotes."""
    name = re.sub(r"\W", "_", job.lower(), flags=re.ASCII)
    # SQLite reserves names with this prefix.
    name = f"job_{name}" if name.startswith("sqlite_") else name
    return name if len(name) <= MAX_NAME_BYTES else _marked(name, job)


def _marked(stem: str, field: str, digits: int = 6) -> str:
    mark = blake2b(field.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    return f"{_cut(stem, MAX_NAME_BYTES - 1 - digits)}_{mark}"


def _cut(text: str, limit: int) -> str:
    """At most `limit` bytes, without splitting a character."""
    return text.encode()[:limit].decode(errors="ignore")
