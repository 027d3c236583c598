"""A host's clock, which starts when a request leaves: input and output of `depart`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from skitter.frontier.wire import ms

#: Bounds the record, however long URLs are.
MAX_URL_CHARS = 200


class Trip(NamedTuple):
    """A finished request, for the audit of politeness."""

    host: str
    url: str
    at_ms: int  # when it left, by the server's clock as given by the lease
    ago_s: float  # the same, by our own clock
    took_s: float
    delay_s: float  # its host's delay at the time

    @property
    def row(self) -> str:
        """The row for record.lua."""
        times = f"{self.at_ms} {ms(self.ago_s)} {ms(self.took_s)} {ms(self.delay_s)}"
        return f"{self.host} {times} {self.url[:MAX_URL_CHARS]}"


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a host: when our last one left, and how long this one would wait."""

    host: str
    moment_ms: int = 0  # our turn, or the moment granted before, if still unused
    ago_s: float | None = None  # since our last request left; None: none did
    max_wait_s: float | None = None  # the longest wait; None: only report
    hold_s: float = 0.0  # how long after the wait it may still leave

    @property
    def arguments(self) -> tuple[str, int, int, int, int]:
        """The EACH row of depart.lua."""
        # 1 ms less, as the server truncates its clock: no request may seem to have left too early.
        ago_ms = -1 if self.ago_s is None else max(0, int(1000 * self.ago_s) - 1)
        max_wait_ms = -1 if self.max_wait_s is None else ms(self.max_wait_s)
        return self.host, self.moment_ms, ago_ms, max_wait_ms, ms(self.hold_s)


class Granted(NamedTuple):
    """When to leave. If that is too late, nothing is reserved."""

    wait_s: float
    moment_ms: int

    @property
    def is_too_late(self) -> bool:
        return self.wait_s < 0
