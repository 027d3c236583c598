"""Users' own metrics until they are sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Final

from skitter.errors import BadOption
from skitter.metrics.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST: Final = 100
MAX_TAGS: Final = 5
#: How many names and tags can wait for the server; more are not counted.
MAX_ROWS: Final = 2000
SUCCESS, ERROR = "success", "error"

#: A name, and its tags as text.
Row = tuple[str, str]


@dataclass(slots=True)
class OwnBatch:
    counts: dict[Row, float] = field(default_factory=dict)
    timings: dict[str, Histogram] = field(default_factory=dict)
    records: int = 0

    def count(self, row: Row, by: float) -> None:
        self.records += 1
        if row in self.counts or len(self.counts) < MAX_ROWS:
            self.counts[row] = self.counts.get(row, 0) + by

    def time(self, name: str, seconds: float, *, ok: bool) -> None:
        self.count((name, SUCCESS if ok else ERROR), 1)
        if name in self.timings or len(self.timings) < MAX_ROWS:
            self.timings.setdefault(name, Histogram()).add(1000 * seconds)


def checked_name(name: str) -> str:
    is_text = isinstance(name, str) and name.strip() and name.isprintable()
    if not is_text or len(name) > LONGEST:
        raise BadOption("name", name, f"text of up to {LONGEST} printable characters")
    return name


def checked_value(value: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value):
        raise BadOption("value", value, "a number")
    return value


def spell_tags(tags: Mapping[str, object] | None) -> str:
    """`kind=book,shop=one`, sorted by name."""
    if not tags:
        return ""
    if len(tags) > MAX_TAGS:
        raise BadOption("tags", dict(tags), f"at most {MAX_TAGS} of them")
    pairs = [f"{_plain(name)}={_plain(tags[name])}" for name in sorted(tags)]
    return ",".join(pairs)


def _plain(part: object) -> str:
    """Text without the separators of tags."""
    text = "".join("_" if one in "=,\n" else one for one in str(part)[:LONGEST])
    return text.encode("utf-8", "replace").decode()
