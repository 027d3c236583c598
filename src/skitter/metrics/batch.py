"""Figures on their way to the server: what one process measured in a few seconds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from skitter.metrics.histogram import Histogram


class Row(NamedTuple):
    """Requests of one host, worker, ...: how many went well, and what they took."""

    ok: int = 0
    failed: int = 0
    bytes: int = 0
    ms: int = 0

    def plus(self, other: Row) -> Row:
        return Row(*(one + more for one, more in zip(self, other, strict=True)))


@dataclass(slots=True)
class Batch:
    """By name, as the catalogue has them."""

    counts: Counter[str] = field(default_factory=Counter)
    timings: dict[str, Histogram] = field(default_factory=dict)
    tables: dict[str, dict[str, Row]] = field(default_factory=dict)  # by table and member
