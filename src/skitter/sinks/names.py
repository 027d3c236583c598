"""Column names: turns any field name into one that every database accepts."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

OWN: Final = ("_job", "_id", "_url", "_fetched_at")
TYPE: Final = "_type"  # the field that says which type an item has, if there are several

MAX_NAME_BYTES: Final = 63  # PostgreSQL silently truncates longer names

# PostgreSQL: every table already has these columns.
_SYSTEM: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
# Control characters, lone surrogates, and "%(": SQLAlchemy 2.0 mistakes %(x)s in a quoted name for
# a parameter.
_ODD = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|%(?=\()")


def safe_field(field: str) -> str:
    """The field's name, changed if it is one of ours."""
    return _marked(field, field) if field in OWN else field


def column_name(field: str, taken: Collection[str]) -> str:
    """A column for the field. `taken`: the names of the other columns, case folded.

    The field's own name where that works. Else its readable part and a few digits that depend on
    the field alone, so that loaders elsewhere choose the same name.
    """
    stem = _cut(_ODD.sub("_", field), MAX_NAME_BYTES)
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
