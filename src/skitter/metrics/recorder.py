"""Records what one process measures: a few additions per page, taken in batches."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from skitter.metrics.batch import Batch, Row
from skitter.metrics.catalogue import CLASSES
from skitter.metrics.histogram import Histogram
from skitter.metrics.spread import DOUBLINGS, doubling_of

#: How many kinds of requests are counted separately per batch: hosts come from the web.
MAX_KINDS: Final = 2000
MAX_TIMINGS: Final = 1000
_BY_HUNDREDS: Final = ("none", "none", *CLASSES[:4])


def status_class(status: int) -> str:
    hundreds = status // 100
    return _BY_HUNDREDS[hundreds] if 0 <= hundreds < len(_BY_HUNDREDS) else "none"


#: What a request is counted by: outcome, status class, host, route (empty: direct) and session. A
#: tuple costs a tenth of an object, and each page makes one.
Exchange = tuple[str, str, str, str, str]


@dataclass(slots=True)
class Recorder:
    """Adds up metrics until `take`."""

    _counts: Counter[str] = field(default_factory=Counter)
    #: Durations in ms, turned into histograms a thousand at a time: a page has three of them, and
    #: taking a logarithm costs ten times as much as storing the number.
    _timings: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _histograms: dict[str, Histogram] = field(default_factory=dict)
    #: Requests, bytes, ms, and requests per doubling.
    _exchanges: dict[Exchange, list[float]] = field(default_factory=dict)

    def count(self, name: str, by: int = 1) -> None:
        if by:
            self._counts[name] += by

    def time(self, name: str, ms: float) -> None:
        timings = self._timings[name]
        timings.append(ms)
        if len(timings) >= MAX_TIMINGS:
            self._fold()

    def _fold(self) -> None:
        timings, self._timings = self._timings, defaultdict(list)
        for name, every in timings.items():
            histogram = self._histograms.setdefault(name, Histogram())
            for ms in every:
                histogram.add(ms)

    def add_exchange(self, kind: Exchange, *, size: int = 0, ms: float | None) -> None:
        """Count a finished request, with any outcome. `ms` is None if its duration is unknown."""
        row = self._exchanges.get(kind)
        if row is None:
            if len(self._exchanges) >= MAX_KINDS:
                kind = (kind[0], kind[1], "", kind[3], "")
            row = self._exchanges.setdefault(kind, [0.0] * (3 + DOUBLINGS))
        row[0] += 1
        row[1] += size
        if ms is not None:
            row[2] += ms
            row[3 + doubling_of(ms)] += 1
            self.time("fetch", ms)

    def take(self, worker: str) -> Batch:
        """All since the last time."""
        self._fold()
        batch = Batch(self._counts, self._histograms)
        exchanges = self._exchanges
        self._counts, self._histograms, self._exchanges = Counter(), {}, {}
        for kind, figures in exchanges.items():
            _unfold(batch, kind, worker, [round(one) for one in figures])
        return batch


def _unfold(batch: Batch, kind: Exchange, worker: str, figures: list[int]) -> None:
    outcome, status, host, route, session = kind
    count, size, ms, *spread = figures
    is_ok = outcome == "ok"
    row = Row(count if is_ok else 0, 0 if is_ok else count, size, ms, tuple(spread))
    batch.counts[f"fetch.{outcome}"] += count
    batch.counts[f"status.{status}"] += count
    batch.counts["bytes"] += size
    for table, member in (
        ("host", host),
        ("worker", worker),
        ("route", route or "direct"),
        ("session", session),
        ("outcome", outcome),
        ("status", status),
    ):
        if member or table == "host":
            rows = batch.tables.setdefault(table, {})
            rows[member] = rows.get(member, Row()).plus(row)
