"""Durations in doublings: below 4 ms, below 8 ms, ... A table has a row for each of hundreds of
hosts, hour by hour: a histogram of fine buckets for each would be too much."""

from __future__ import annotations

from typing import Final

DOUBLINGS: Final = 16  # the last one holds all from 65 s on
Spread = tuple[int, ...]  # how many of each; what is missing at the end is 0


def doubling_of(ms: float) -> int:
    return min(DOUBLINGS - 1, max(0, int(ms).bit_length() - 2))


def quantile(spread: Spread, share: float) -> float | None:
    """0.95: what 95 % did not take longer than, as if they were even within a doubling."""
    rank, below = share * sum(spread), 0
    for at, count in enumerate(spread):
        if count and below + count >= rank:
            return float(2 ** (at + 1 + (rank - below) / count))
        below += count
    return None
