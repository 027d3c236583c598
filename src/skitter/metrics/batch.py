"""Metrics on their way to the server: what one process measured in a few seconds."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from skitter.metrics.histogram import Histogram

if TYPE_CHECKING:
    from skitter.metrics.spread import Spread


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
    """Metrics by their names in the catalogue."""

    counts: Counter[str] = msgspec.field(default_factory=Counter)
    timings: dict[str, Histogram] = msgspec.field(default_factory=dict)
    tables: dict[str, dict[str, Row]] = msgspec.field(default_factory=dict)  # by table and member
