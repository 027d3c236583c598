"""What a later visit found different in a row, and what does not count as different."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from difflib import SequenceMatcher, unified_diff
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from skitter.sinks.columns import Kind, fit, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skitter.model import Result

#: The item of a notice: the page is gone. Other notices only say that it has no items now.
GONE = "gone"
LONG = 100  # characters: longer texts are shown as a diff
MOST_WORDS = 2000  # of a text are compared: the time grows with their square


class Difference(NamedTuple):
    """A field that changed; None: it has no value."""

    field: str
    old: Any
    new: Any


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the feed. `key`: which of the page's rows; empty: the page itself."""

    seq: int = 0
    kind: str  # new, changed, gone
    url: str
    key: str = ""
    field: str = ""
    old: Any = None
    new: Any = None
    at: str  # when the later visit was


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Differences that are not noted."""

    ignored: frozenset[str] = frozenset()  # fields
    smallest: float = 0.0  # share of a number, or of the words of a text, that has to differ

    def hides(self, difference: Difference) -> bool:
        if difference.field in self.ignored:
            return True
        old, new = difference.old, difference.new
        if self.smallest and _is_number(old) and _is_number(new):
            return bool(abs(new - old) < self.smallest * max(abs(old), abs(new)))
        if self.smallest and isinstance(old, str) and isinstance(new, str):
            return _share_changed(old, new) < self.smallest
        return False


def unified(old: str, new: str) -> list[str]:
    """What changed in a long text, line by line."""
    lines = unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)
    return [line for line in lines if not line.startswith(("---", "+++"))]


def is_text(change: Change) -> bool:
    """Whether both values are texts that are best read as a diff."""
    both = isinstance(change.old, str) and isinstance(change.new, str)
    return both and max(len(change.old), len(change.new)) > LONG


def is_gone(notice: Result) -> bool:
    """Whether the notice says that the page is gone."""
    return notice.is_notice and notice.item == GONE


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], kinds: Mapping[str, Kind], noise: Noise
) -> Iterator[Difference]:
    """Between a stored row and the one that replaces it, field by field."""
    for name, kind in kinds.items():
        difference = Difference(name, plain(old.get(name), kind), plain(new.get(name), kind))
        if not _is_same(difference.old, difference.new) and not noise.hides(difference):
            yield difference


def plain(value: Any, kind: Kind) -> Any:
    """The value as JSON has it, and as the database would give it back."""
    value = fit(value, kind)
    if isinstance(value, float) and not isfinite(value):
        return None
    return text_of(value) if isinstance(value, bytes | date) else value


def _is_same(old: Any, new: Any) -> bool:
    """Equal as JSON: true is not 1, but 1.0 is, since databases change one into the other."""
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_is_same(old[name], new[name]) for name in old)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return bool(old == new)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _share_changed(old: str, new: str) -> float:
    words = (old.split()[:MOST_WORDS], new.split()[:MOST_WORDS])
    return 1 - SequenceMatcher(None, *words, autojunk=False).ratio()
