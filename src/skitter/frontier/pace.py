"""The clock of a host, which starts when a request leaves: what `depart` takes and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from skitter.frontier.wire import ms

#: The record is bounded, whatever the length of URLs.
MAX_URL_CHARS = 200


class Trip(NamedTuple):
    """A request that is over, for the audit of politeness."""

    host: str
    url: str
    at_ms: int  # when it left, by the server's clock as the lease told it
    ago_s: float  # the same, by our own clock
    took_s: float
    delay_s: float  # that its host wanted then

    @property
    def row(self) -> str:
        """As in record.lua."""
        times = f"{self.at_ms} {ms(self.ago_s)} {ms(self.took_s)} {ms(self.delay_s)}"
        return f"{self.host} {times} {self.url[:MAX_URL_CHARS]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """One request to a host: when the one before it left, and how long it would wait itself."""

    host: str
    moment_ms: int = 0  # our turn there, or what was granted, if it was not used yet
    ago_s: float | None = None  # since our last request left; None: none did
    most_s: float | None = None  # the longest wait; None: this only tells
    hold_s: float = 0.0  # so long after that wait it may leave

    @property
    def arguments(self) -> tuple[str, int, int, int, int]:
        """As EACH in depart.lua."""
        # The server leaves out parts of a millisecond: no request left earlier than we say.
        ago_ms = -1 if self.ago_s is None else max(0, int(1000 * self.ago_s) - 1)
        most_ms = -1 if self.most_s is None else ms(self.most_s)
        return self.host, self.moment_ms, ago_ms, most_ms, ms(self.hold_s)


class Granted(NamedTuple):
    """When to leave. Nothing is reserved if that would be too late."""

    wait_s: float
    moment_ms: int

    @property
    def is_too_late(self) -> bool:
        return self.wait_s < 0
