"""The quality of scraped items: what each handler found, and whether that got worse. Pure.

The server keeps windows of pages per handler (lua/observe.lua), longer ones for older pages. The
latest windows, `now`, are compared with the best stretch of as many pages `before`. The mean would
not do: bad results, if they last, become the mean.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.model import TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from skitter.settings import QualityOptions

#: Standard deviations by which two shares must differ, or it is chance: there are many fields.
SIGNIFICANT = 4.0
#: A type counts as the type of a field if this share of its values has it.
MAIN_TYPE = 0.9
_TICKS = "▁▂▃▄▅▆▇█"


class Window(msgspec.Struct, frozen=True):
    """What a handler found on some consecutive pages."""

    at: float = math.inf  # when it began
    pages: int = 0
    items: int = 0
    blocked: int = 0  # block pages received instead
    filled: Counter[tuple[str, str]] = msgspec.field(
        default_factory=Counter
    )  # (field, type) -> values

    def __add__(self, other: Window) -> Window:
        return Window(
            min(self.at, other.at),
            self.pages + other.pages,
            self.items + other.items,
            self.blocked + other.blocked,
            self.filled + other.filled,
        )

    @property
    def answers(self) -> int:
        return self.pages + self.blocked

    @property
    def per_page(self) -> float:
        return self.items / self.pages if self.pages else 0.0

    @property
    def blocked_share(self) -> float:
        return self.blocked / self.answers if self.answers else 0.0

    def types(self, name: str) -> Counter[str]:
        return Counter({kind: n for (of, kind), n in self.filled.items() if of == name})

    def of(self, name: str) -> int:
        """How many items may have the field: those of its type, in `Book.price`."""
        return self.count(_type_of(name)) or self.items

    def count(self, name: str) -> int:
        return self.types(name).total()

    def fill(self, name: str) -> float:
        """The share of these with a value in the field."""
        return self.count(name) / self.of(name) if self.of(name) else 0.0

    def has_by_type(self, name: str) -> bool:
        """Whether some type has a field of that name."""
        ends = f".{name}"
        return any(of.endswith(ends) and self.count(_type_of(of)) for of, _ in self.filled)

    def rate(self, name: str) -> float:
        """Items of a type per page."""
        return self.count(name) / self.pages if self.pages else 0.0

    def type_of(self, name: str) -> str:
        """The type of nearly all values; or the types, joined by |."""
        found = self.types(name)
        main = [kind for kind, n in found.items() if n >= MAIN_TYPE * found.total()]
        return (main or ["|".join(sorted(found))])[0]


def _type_of(name: str) -> str:
    """The field that says the type, for a field of items of several types: `Book._type`. Each type
    is judged apart, as a page may have one book and any number of offers."""
    return f"{name.partition('.')[0]}.{TYPE}"


def _is_type(name: str) -> bool:
    return name.endswith(f".{TYPE}")


class History(msgspec.Struct, frozen=True):
    """The windows of one handler, oldest first."""

    handler: str
    windows: list[Window]

    @property
    def fields(self) -> list[str]:
        return list(dict.fromkeys(name for window in self.windows for name, _ in window.filled))

    def split(self, min_pages: int, since: float = 0.0) -> tuple[Window, list[Window]]:
        """The latest windows with enough answers, none before `since`; and the stretches before,
        each of enough pages. The first is empty if there are too few."""
        now, before = Window(), list(self.windows)
        while before and now.answers < min_pages and before[-1].at >= since:
            now = before.pop() + now
        if now.answers < min_pages:
            return Window(), list(_stretches(self.windows, min_pages))
        return now, list(_stretches(before, min_pages))


def _stretches(windows: Iterable[Window], min_pages: int) -> Iterator[Window]:
    """Windows, merged until they have enough pages; an incomplete rest is dropped."""
    total = Window()
    for window in windows:
        total += window
        if total.pages >= min_pages:
            yield total
            total = Window()


class Finding(msgspec.Struct, frozen=True):
    """One thing that got worse."""

    handler: str
    field: str  # empty: the finding is about pages
    text: str
    is_lost: bool = True  # False: the field has values of another type

    @property
    def kind(self) -> str:
        """What it is about, without figures."""
        return f"quality of {self.handler}: {self.field or 'no item'}"

    def is_shown_by(self, items: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a page with these items is an example."""
        if not self.field:
            return not items
        name, own = self.field, items
        if any(TYPE in item for item in items):
            kind, _, name = self.field.partition(".")
            own = [item for item in items if item.get(TYPE) == kind]
        if _is_type(self.field):
            return not own
        values = [item.get(name) for item in own]
        return any((value in (None, "", [], {})) is self.is_lost for value in values)

    def __str__(self) -> str:
        return f"{self.handler}: {self.text}"


def judge(
    histories: Iterable[History], options: QualityOptions, *, since: float = 0.0
) -> list[Finding]:
    """What got worse. `since`: judge only what was found after that moment."""
    return [bad for history in histories for bad in _judge(history, options, since)]


def _judge(history: History, options: QualityOptions, since: float) -> Iterator[Finding]:
    now, before = history.split(options.min_pages, since)
    name = history.handler
    if now.answers and options.max_blocked is not None:
        yield from _judge_blocks(name, now, before, options)
    if now.pages < options.min_pages:
        return
    if now.per_page < (options.min_items_per_page or 0):
        limit = f"below quality.min_items_per_page = {options.min_items_per_page:g}"
        yield Finding(name, "", f"{now.per_page:.2g} items per page, {limit}")
    best = max((window.per_page for window in before), default=0.0)
    if best and 1 - now.per_page / best > _limit(options.max_items_drop):
        yield Finding(name, "", f"{now.per_page:.2g} items per page, down from {best:.2g}")
    for field in history.fields if before else ():
        judge_one = _judge_type if _is_type(field) else _judge_field
        yield from judge_one(name, field, now, before, options)


def _judge_blocks(
    handler: str, now: Window, before: Sequence[Window], options: QualityOptions
) -> Iterator[Finding]:
    share, calm = (
        now.blocked_share,
        min(before, key=lambda window: window.blocked_share, default=now),
    )
    says = f"{share:.0%} of the responses are block pages"
    if share > _limit(options.max_blocked):
        yield Finding(handler, "", says)
    elif share - calm.blocked_share > _limit(options.max_blocked_rise) and _differ(
        (calm.blocked_share, calm.answers), (share, now.answers)
    ):
        yield Finding(handler, "", f"{says}, up from {calm.blocked_share:.0%}")


def _judge_type(
    handler: str, name: str, now: Window, before: Sequence[Window], options: QualityOptions
) -> Iterator[Finding]:
    """Pages with several items of a type may have fewer, but not none."""
    best = max(before, key=lambda window: window.rate(name))
    was, rate = min(1.0, best.rate(name)), min(1.0, now.rate(name))
    is_rarer = was and 1 - rate / was > _limit(options.max_fill_drop)
    if is_rarer and _differ((was, best.pages), (rate, now.pages)):
        text = f"{now.rate(name):.2g} items of {name.partition('.')[0]} per page"
        yield Finding(handler, name, f"{text}, down from {best.rate(name):.2g}")


def _judge_field(
    handler: str, name: str, now: Window, before: Sequence[Window], options: QualityOptions
) -> Iterator[Finding]:
    best = max(before, key=lambda window: window.fill(name))
    if best.count(_type_of(name)):
        if not now.count(_type_of(name)):
            return  # no items of its type: a finding of its own
    elif not now.items or now.has_by_type(name):
        return  # an earlier release counted the field for all types
    was, fill = best.fill(name), now.fill(name)
    if was and 1 - fill / was > _limit(options.max_fill_drop) and _is_significant(name, best, now):
        yield Finding(handler, name, f"{name!r} is filled in {_percent(fill, was)}")
        return
    main, main_before = now.type_of(name), best.type_of(name)
    if main and main_before and main != main_before and "|" not in main_before:
        text = f"{name!r} is now {main}, and was {main_before}"
        yield Finding(handler, name, text, is_lost=False)


def _percent(now: float, before: float) -> str:
    return f"{now:.0%} of the items, down from {before:.0%}"


def _limit(option: float | None) -> float:
    return math.inf if option is None else option


def _is_significant(name: str, window: Window, other: Window) -> bool:
    """Items from one page are alike: a page is one sample."""
    return _differ(
        (window.fill(name), min(window.pages, window.of(name))),
        (other.fill(name), min(other.pages, other.of(name))),
    )


def _differ(one: tuple[float, int], other: tuple[float, int]) -> bool:
    """Two shares, each with its number of samples: a two-proportion z-test."""
    (p, a), (q, b) = one, other
    share = (p * a + q * b) / (a + b)
    deviation = math.sqrt(share * (1 - share) * (1 / a + 1 / b))
    return abs(p - q) > SIGNIFICANT * deviation


def total(windows: Iterable[Window]) -> Window:
    return reduce(Window.__add__, windows, Window())


class Line(msgspec.Struct, frozen=True):
    """One figure of a handler over time: items per page, share of block pages, fill rate."""

    handler: str
    field: str
    type: str
    now: float
    before: float | None  # None: too little data
    history: list[float | None]
    is_share: bool = True

    def document(self) -> dict[str, Any]:
        """As JSON."""
        values = {"now": self.now, "before": self.before, "history": self.history}
        return {"handler": self.handler, "field": self.field, "type": self.type, **values}


def lines_of(history: History, min_pages: int) -> Iterator[Line]:
    """What to show about a handler, now and before."""
    name, windows = history.handler, history.windows
    now, before = history.split(min_pages)
    if not now.answers:
        now, before = total(windows), []
    best = max((window.per_page for window in before), default=None)
    pages = [window.per_page if window.pages else None for window in windows]
    yield Line(name, "(items per page)", "", now.per_page, best, pages, is_share=False)
    if any(window.blocked for window in windows):
        least = min((window.blocked_share for window in before), default=None)
        shares = [window.blocked_share if window.answers else None for window in windows]
        yield Line(name, "(block pages)", "", now.blocked_share, least, shares)
    for field in filter(_is_type, history.fields):
        was = max((window.rate(field) for window in before), default=None)
        rates = [window.rate(field) if window.pages else None for window in windows]
        kind = f"({field.partition('.')[0]} per page)"
        yield Line(name, kind, "", now.rate(field), was, rates, is_share=False)
    for field in (field for field in history.fields if not _is_type(field)):
        was = max((window.fill(field) for window in before), default=None)
        fills = [window.fill(field) if window.items else None for window in windows]
        kind = now.type_of(field) or total(windows).type_of(field)
        yield Line(name, field, kind, now.fill(field), was, fills)


def sparkline(values: Sequence[float | None], *, peak: float) -> str:
    """A bar per value; a dot where there is none."""
    top = len(_TICKS) - 1
    return "".join(
        "·" if value is None else _TICKS[round(top * min(value / peak, 1.0))] if peak else _TICKS[0]
        for value in values
    )
