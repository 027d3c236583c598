"""Durations in doublings: below 4 ms, below 8 ms, ... Tables have hundreds of hosts for every
hour: a histogram of fine buckets for each would be too much."""

from __future__ import annotations

from typing import Final

DOUBLINGS: Final = 16  # the last one holds everything from 65 s on
Spread = tuple[int, ...]  # the count of each; missing ones at the end are 0


def doubling_of(ms: float) -> int:
    return min(DOUBLINGS - 1, max(0, int(ms).bit_length() - 2))


def quantile(spread: Spread, share: float) -> float | None:
    """With 0.95: 95 % took no longer than this, if durations are even within a doubling."""
    rank, below = share * sum(spread), 0
    for at, count in enumerate(spread):
        if count and below + count >= rank:
            return float(2 ** (at + 1 + (rank - below) / count))
        below += count
    return None
