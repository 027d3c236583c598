"""What a changed spider changes: the rows of two outputs, compared field by field."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN: Final = ("_id", "_url", "_fetched_at")
#: URL and fields, by page and place there, or key. A page may be found by another spelling.
Rows = dict[tuple[str, Any], tuple[str, dict[str, Any]]]


class Example(msgspec.Struct, frozen=True):
    """One value that differs."""

    url: str
    before: Any = None
    now: Any = None


@dataclass(slots=True)
class FieldDiff:
    """One field, over all rows that are in both."""

    before: int = 0  # rows that fill it
    now: int = 0
    added: list[Example] = field(default_factory=list)
    lost: list[Example] = field(default_factory=list)
    changed: list[Example] = field(default_factory=list)

    def note(self, url: str, before: Any, now: Any) -> None:
        self.before += is_filled(before)
        self.now += is_filled(now)
        if before == now or not (is_filled(before) or is_filled(now)):
            return
        where = self.changed if is_filled(before) and is_filled(now) else self.lost
        where = self.added if not is_filled(before) else where
        where.append(Example(url, before, now))

    @property
    def is_same(self) -> bool:
        return not (self.added or self.lost or self.changed)


@dataclass(slots=True)
class Diff:
    """All fields, and the rows that are in one output only."""

    rows: int = 0  # in both
    gone: list[str] = field(default_factory=list)  # URLs, one for each row
    new: list[str] = field(default_factory=list)
    fields: dict[str, FieldDiff] = field(default_factory=lambda: defaultdict(FieldDiff))

    @property
    def is_same(self) -> bool:
        return not (self.gone or self.new) and all(one.is_same for one in self.fields.values())

    @property
    def loses(self) -> bool:
        """Whether something that was filled is now empty."""
        return bool(self.gone) or any(one.lost for one in self.fields.values())


def is_filled(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def compare(before: Rows, now: Rows) -> Diff:
    diff = Diff()
    for place, (url, old) in before.items():
        if place not in now:
            diff.gone.append(url)
            continue
        new = now[place][1]
        diff.rows += 1
        for name in sorted({*old, *new}):
            diff.fields[name].note(url, old.get(name), new.get(name))
    diff.new = [url for place, (url, _) in now.items() if place not in before]
    return diff


def rows_of(items: Iterable[dict[str, Any]], key: str | None = None) -> Rows:
    """Rows by their page and place there; with `key`, by the value of that field."""
    found: Rows = {}
    for item in items:
        fingerprint, _, place = item["_id"].rpartition("-")
        which = _hashable(item.get(key)) if key else place
        number = next(n for n in count() if (fingerprint, (which, n)) not in found)
        fields = {name: value for name, value in item.items() if name not in _OWN}
        # A database has times where a file has text.
        found[fingerprint, (which, number)] = item["_url"], msgspec.to_builtins(fields)
    return found


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else msgspec.json.encode(value)
