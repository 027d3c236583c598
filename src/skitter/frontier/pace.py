"""The clock of a host, which starts when a request leaves: what `depart` takes and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from skitter.frontier.wire import ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """One request to a host: when the one before it left, and how long it would wait itself."""

    host: str
    moment_ms: int = 0  # our turn there, or what was granted, if it was not used yet
    ago_s: float | None = None  # since our last request left; None: none did
    most_s: float | None = None  # the longest wait; None: this only tells

    @property
    def arguments(self) -> tuple[str, int, int, int]:
        """As EACH in depart.lua."""
        ago_ms, most_ms = (-1 if one is None else ms(one) for one in (self.ago_s, self.most_s))
        return self.host, self.moment_ms, ago_ms, most_ms


class Granted(NamedTuple):
    """When to leave. Nothing is reserved if that would be too late."""

    wait_s: float
    moment_ms: int

    @property
    def is_too_late(self) -> bool:
        return self.wait_s < 0
