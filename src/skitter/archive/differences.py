"""What differs between what a handler should find on a saved page and what it finds."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import count, zip_longest
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SHOWN: Final = 160  # characters of a value
_BEFORE: Final = 30  # of them before the first difference


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One field, item or link that is not as expected. A side that lacks it is left out."""

    what: str
    field: str = ""
    before: Any = msgspec.UNSET
    now: Any = msgspec.UNSET

    @property
    def lines(self) -> Iterator[str]:
        is_new, is_gone = self.before is msgspec.UNSET, self.now is msgspec.UNSET
        how = " is new" if is_new else " is gone" if is_gone else ""
        yield f"{self.what}{', ' if self.field else ''}{self.field}{how}"
        yield from both(self.before, self.now)


def both(before: Any, now: Any) -> Iterator[str]:
    """A value as it was and as it is, if it was or is: as JSON, and of a long one the part where
    they begin to differ."""
    sides = {sign: _text(one) for sign, one in (("-", before), ("+", now))}
    start = _first_difference(*sides.values())
    for sign, text in sides.items():
        if text is not None:
            yield f"  {sign} {_cut(text, start)}"


def differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[Difference]:
    for kind, what in (("items", "item"), ("rejected", "rejected item")):
        for number, old, new in _aligned(before.get(kind, []), now[kind]):
            yield from _compare(f"{what} {number}", old, new)
    old_links, new_links = _by_url(before.get("links", [])), _by_url(now["links"])
    for key in sorted({*old_links, *new_links}):
        yield from _compare(f"link {key[0]}", old_links.get(key), new_links.get(key))


def _compare(what: str, old: Any, new: Any) -> Iterator[Difference]:
    """By field if both are there. As JSON: for Python, 1, 1.0 and True are equal."""
    if old is None or new is None:
        there = [msgspec.UNSET if one is None else one for one in (old, new)]
        yield Difference(what, "", *there)
        return
    for name in dict.fromkeys((*old, *new)):
        sides = [one.get(name, msgspec.UNSET) for one in (old, new)]
        if _text(sides[0]) != _text(sides[1]):
            yield Difference(what, name, *sides)


def _aligned(before: list[Any], now: list[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Items that belong together, if one was added or lost among them; numbered as now, or as
    before if it is gone."""
    matcher = SequenceMatcher(
        None, [encoded(one) for one in before], [encoded(one) for one in now], autojunk=False
    )
    for how, a, b, c, d in matcher.get_opcodes():
        if how != "equal":
            pairs = zip_longest(before[a:b], now[c:d])
            for place, (old, new) in enumerate(pairs):
                yield (a if new is None else c) + place + 1, old, new


def _by_url(links: Iterable[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for link in links:
        number = next(n for n in count() if (link["url"], n) not in found)
        found[link["url"], number] = link
    return found


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _text(value: Any) -> str | None:
    return None if value is msgspec.UNSET else encoded(value).decode()


def _first_difference(before: str | None, now: str | None) -> int:
    pairs = zip(before or "", now or "", strict=False)
    return next((n for n, (char, other) in enumerate(pairs) if char != other), 0)


def _cut(text: str, start: int) -> str:
    """What is shown of a value: where it begins to differ, if it is long."""
    begin = max(0, start - _BEFORE) if len(text) > _SHOWN else 0
    end = begin + _SHOWN
    return f"{'...' * (begin > 0)}{text[begin:end]}{'...' * (len(text) > end)}"
