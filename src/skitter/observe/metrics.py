"""Metrics of a crawl: what is counted and timed, and how. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import zip_longest
from math import ceil, inf, log2
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


OUTCOMES: Final = ("ok", "http_error", "blocked", "timeout", "proxy_error", "robots", "error")
CLASSES: Final = ("2xx", "3xx", "4xx", "5xx", "none")

#: Every metric of a crawl is declared here, for storage, Prometheus and the reference.
COUNTERS: Final = {
    "pages": "pages that are done",
    "items": "items that handlers found",
    "retries": "attempts that will be retried",
    "dead": "requests that were given up",
    "blocked": "responses that were block pages",
    "lost": "leases that expired because their worker vanished",
    "bytes": "bytes of bodies, and all browser traffic",
    **{f"fetch.{outcome}": f"requests that ended as {outcome}" for outcome in OUTCOMES},
    **{f"status.{kind}": f"responses with status {kind}" for kind in CLASSES if kind != "none"},
    "status.none": "requests without a response",
    "stored": "items that were stored",
    "archived": "pages that the archive has kept",
    "archived_bytes": "bytes that the archive has taken for them",
    "unarchived": "pages that are done, and that the archive could not keep",
    "browser_ms": "milliseconds of browser work",
    "proxy_money_micro": "cost of proxies, in millionths",
    #: Where it is 0, nothing was recorded at that time.
    "reports": "reports that processes sent",
}
ARCHIVED: Final = ("archived", "archived_bytes", "unarchived")
TIMINGS: Final = {
    "queue_wait": "from the moment a request could be fetched until it was leased",
    "dns": "looking up the address of a host",
    "connect": "connecting to a host, including TLS; only with aiohttp as the client",
    "first_byte": "from sending a request to the head of its response",
    "fetch": "a whole exchange, including the body",
    "handler": "running a handler",
    "load": "storing a batch of items",
    "browser": "rendering a page in a browser",
}
#: Counted by the shards, as no process knows; all others are in the first shard.
BY_SHARD: Final = frozenset({"lost", "queue_wait"})
#: Rows of {ok, failed, bytes, ms} by hour.
TABLES: Final = {
    "host": "by host",
    "worker": "by worker",
    "route": "by proxy",
    "session": "by class of session",
    "outcome": "by outcome",
    "status": "by status class",
}


class Grain(NamedTuple):
    """How fine the time slots are, and how long they are kept."""

    step_s: int
    keep_s: int


DAY_S: Final = 86_400
WEEK_S: Final = 7 * DAY_S
#: Slots of a counter per key.
SLOTS: Final = 360
COUNT_GRAINS: Final = (Grain(10, DAY_S), Grain(60, WEEK_S))
TIMING_GRAINS: Final = (Grain(60, DAY_S), Grain(3600, WEEK_S))
#: One slot for everything; it expires a week after the last write.
EVER: Final = Grain(0, WEEK_S)
TABLE_GRAINS: Final = (Grain(3600, 2 * DAY_S),)
MAX_POINTS: Final = 2000


class Window(msgspec.Struct, frozen=True):
    """The points of a chart: `count` of them from `start` on, `step_s` apart."""

    start: int
    step_s: int
    count: int
    grain: Grain  # of the counters
    timing_grain: Grain

    @property
    def starts(self) -> range:
        return range(self.start, self.start + self.count * self.step_s, self.step_s)


def window(now: float, *, since_s: float, points: int) -> Window:
    """The window that ends now; its newest point is not complete yet."""
    since_s = min(max(since_s, COUNT_GRAINS[0].step_s), WEEK_S)
    points = min(max(points, 1), MAX_POINTS)
    fine, coarse = COUNT_GRAINS
    is_fine = since_s <= fine.keep_s and since_s / points < coarse.step_s
    grain = fine if is_fine else coarse
    step = grain.step_s * ceil(since_s / (grain.step_s * points))
    last = int(now) // step * step
    count = ceil(since_s / step)
    timing = TIMING_GRAINS[0 if since_s <= TIMING_GRAINS[0].keep_s else 1]
    return Window(last - (count - 1) * step, step, count, grain, timing)


PER_DOUBLING: Final = 16
#: From 8 us (1/128 ms) to 4.6 hours; anything outside counts in the first or last bucket.
#: Fewer than 512 in all: the server keeps larger hashes in four times the memory.
LOWEST: Final = -7 * PER_DOUBLING
HIGHEST: Final = 24 * PER_DOUBLING
_GAMMA: Final = 2 ** (1 / PER_DOUBLING)
_LEAST_MS: Final = 2 ** (LOWEST / PER_DOUBLING)


def bucket_of(ms: float) -> int:
    if ms <= _LEAST_MS:
        return LOWEST
    return min(HIGHEST, ceil(log2(ms) * PER_DOUBLING))


def upper_ms(bucket: int) -> float:
    """The largest duration in the bucket."""
    return float(2 ** (bucket / PER_DOUBLING))


def middle_ms(bucket: int) -> float:
    """A value within 2.2 % of every duration in the bucket."""
    return upper_ms(bucket) * 2 / (1 + _GAMMA)


class Histogram(msgspec.Struct):
    """A distribution of durations in log buckets: its size does not depend on how many were
    measured.

    Bucket i holds durations above 2^((i-1)/16) ms, up to 2^(i/16) ms. That is a DDSketch with a
    relative error of 2.2 %, and an exponential histogram of schema 4 (OpenTelemetry, Prometheus).
    Merging adds buckets, without any loss.
    """

    buckets: dict[int, int] = msgspec.field(default_factory=dict)
    sum_ms: float = 0.0

    def add(self, ms: float) -> None:
        bucket = bucket_of(ms)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.sum_ms += ms

    def merge(self, other: Histogram) -> None:
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.sum_ms += other.sum_ms

    @property
    def count(self) -> int:
        return sum(self.buckets.values())

    @property
    def mean_ms(self) -> float | None:
        return self.sum_ms / count if (count := self.count) else None

    def quantile(self, share: float) -> float | None:
        """With 0.95: 95 % took no longer than this. None: nothing was measured."""
        rank, below = share * (self.count - 1), 0
        for bucket in sorted(self.buckets):
            below += self.buckets[bucket]
            if below > rank:
                return middle_ms(bucket)
        return None

    @property
    def longest_ms(self) -> float:
        return middle_ms(max(self.buckets)) if self.buckets else inf

    def count_up_to(self, ms: float) -> int:
        """How many took no longer, to the nearest bucket bound."""
        last = round(log2(ms) * PER_DOUBLING)
        return sum(count for bucket, count in self.buckets.items() if bucket <= last)


def merged(histograms: Iterable[Histogram]) -> Histogram:
    total = Histogram()
    for histogram in histograms:
        total.merge(histogram)
    return total


DOUBLINGS: Final = 16  # the last one holds everything from 65 s on
Spread = tuple[int, ...]  # the count of each; missing ones at the end are 0


def doubling_of(ms: float) -> int:
    """The doubling that a duration is in: below 4 ms, below 8 ms, ... Tables have hundreds of hosts
    for every hour: a histogram of fine buckets for each would be too much."""
    return min(DOUBLINGS - 1, max(0, int(ms).bit_length() - 2))


def quantile(spread: Spread, share: float) -> float | None:
    """With 0.95: 95 % took no longer than this, if durations are even within a doubling."""
    rank, below = share * sum(spread), 0
    for at, count in enumerate(spread):
        if count and below + count >= rank:
            return float(2 ** (at + 1 + (rank - below) / count))
        below += count
    return None


class Row(NamedTuple):
    """Requests of one host, worker, ...: how many succeeded, and what they took."""

    ok: int = 0
    failed: int = 0
    bytes: int = 0
    ms: int = 0
    spread: Spread = ()

    def plus(self, other: Row) -> Row:
        spread = zip_longest(self.spread, other.spread, fillvalue=0)
        return Row(
            self.ok + other.ok,
            self.failed + other.failed,
            self.bytes + other.bytes,
            self.ms + other.ms,
            tuple(map(sum, spread)),
        )


class Batch(msgspec.Struct):
    """What one process measured in a few seconds, by the names in the catalogue, on its way to the
    server."""

    counts: Counter[str] = msgspec.field(default_factory=Counter)
    timings: dict[str, Histogram] = msgspec.field(default_factory=dict)
    tables: dict[str, dict[str, Row]] = msgspec.field(default_factory=dict)  # by table and member


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
    """Adds up what one process measures, a few additions per page, until `take`."""

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
            _unfold(batch, kind, worker, [round(figure) for figure in figures])
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
