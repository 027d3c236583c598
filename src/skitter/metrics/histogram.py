"""Durations in log buckets: the size does not depend on how many were measured.

Bucket i holds durations above 2^((i-1)/16) ms, up to 2^(i/16) ms. That is a DDSketch with a
relative error of 2.2 %, and an exponential histogram of schema 4 (OpenTelemetry, Prometheus).
"""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

PER_DOUBLING: Final = 16
#: From 1/16 ms to 4.6 hours; anything outside counts in the first or last bucket.
LOWEST: Final = -4 * PER_DOUBLING
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
    """A distribution of durations. Merging adds buckets, without any loss."""

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

    def count_up_to(self, ms: float) -> int:
        """How many took no longer, to the nearest bucket bound."""
        last = round(log2(ms) * PER_DOUBLING)
        return sum(count for bucket, count in self.buckets.items() if bucket <= last)


def merged(histograms: Iterable[Histogram]) -> Histogram:
    total = Histogram()
    for one in histograms:
        total.merge(one)
    return total
