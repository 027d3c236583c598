"""The clock of a host starts when a request leaves: when it may, and what the frontier hears.

A lease is a turn at its host, and most requests leave at once. One that leaves later (a handler
held the process up, robots.txt was fetched first) would come too close to the next, so its lateness
is reported before its lease ends. Where a host may have several requests under way, and for the
second request of an attempt, the frontier is asked for a moment first. Nothing of this costs a call
as long as requests leave on time, or anything at all where there is no delay.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skitter.errors import SkitterError
from skitter.frontier.pace import Departure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.pace import Granted
    from skitter.model import Lease, Pace

#: A request that leaves so soon after its turn is on time.
TOLERANCE_S: Final = 0.01
#: Nobody else has a turn while ours lasts; but a process that slept may have lost its lease.
ALONE_S: Final = 5.0
#: How often to ask again when the moment that was granted passed, too: the process is very busy.
TRIES: Final = 3
#: How long a request waits for its moment here; a longer wait is spent in the frontier. After
#: robots.txt that costs little, as there are other hosts; after a redirect it would begin anew.
PATIENCE_S: Final = 10.0
PATIENCE_AFTER_ROBOTS_S: Final = 0.05
PATIENCE_AFTER_REDIRECT_S: Final = 86_400.0
MAX_TOLD: Final = 10_000


class TooEarly(Exception):
    """The request would leave too early, and is not going to wait for its moment here."""


@dataclass(slots=True, eq=False)
class _Ask:
    departure: Departure
    granted: Granted | None = None


@dataclass(slots=True)
class Departures:
    """The departures of one worker."""

    frontier: Frontier
    _left: dict[str, float] = field(default_factory=dict)  # fingerprint -> when it left, if late
    _asks: list[_Ask] = field(default_factory=list)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def gate(self, lease: Lease) -> Gate | None:
        """Where the requests of an attempt leave; None: they may leave as they like."""
        return None if lease.pace is None else Gate(self, lease, lease.pace)

    def note_now(self, lease: Lease) -> None:
        """A request of it left, and no later than now."""
        self.note(lease, left_at=time.monotonic(), late_s=math.inf)

    def note(self, lease: Lease, *, left_at: float, late_s: float) -> None:
        if late_s <= TOLERANCE_S:
            self._left.pop(lease.fingerprint, None)
            return
        if len(self._left) >= MAX_TOLD:
            self._left.pop(next(iter(self._left)))
        self._left[lease.fingerprint] = left_at

    async def tell(self, leases: Iterable[Lease]) -> None:
        """Before leases end, and others may have their turn: which of them left late."""
        late = [lease for lease in leases if lease.fingerprint in self._left] if self._left else []
        if not late:
            return
        now = time.monotonic()
        await self.frontier.depart(
            [
                Departure(host=lease.host, ago_s=now - self._left[lease.fingerprint])
                for lease in late
            ]
        )
        for lease in late:
            self._left.pop(lease.fingerprint, None)

    async def ask(self, departure: Departure) -> Granted:
        """Those who ask while a call is under way share the next one."""
        ask = _Ask(departure)
        self._asks.append(ask)
        async with self._asking:
            if ask.granted is None:
                await self._ask_for_all(ask)
        assert ask.granted is not None
        return ask.granted

    async def _ask_for_all(self, ask: _Ask) -> None:
        # Whoever called for us may have been cancelled half-way.
        asks, self._asks = [ask, *(one for one in self._asks if one is not ask)], []
        granted = await self.frontier.depart([one.departure for one in asks])
        for one, answer in zip(asks, granted, strict=True):
            one.granted = answer


@dataclass(slots=True)
class Gate:
    """Where the requests of one attempt leave."""

    departures: Departures
    lease: Lease
    pace: Pace
    patience_s: float = PATIENCE_S
    _left_at: float | None = None
    _moment_ms: int = 0  # our turn; 0: it was used
    _opened_at: float = 0.0  # it is no earlier than that

    def __post_init__(self) -> None:
        self._moment_ms, self._opened_at = self.pace.moment_ms, self.pace.since

    @property
    def was_used(self) -> bool:
        return self._left_at is not None

    async def leave(self) -> None:
        """Return when the request may leave, which is now. Raises TooEarly."""
        for _ in range(TRIES):
            if self._is_on_time():
                break
            await self._wait_for_moment()
        self._left_at = time.monotonic()
        self.departures.note(
            self.lease, left_at=self._left_at, late_s=self._left_at - self._opened_at
        )
        self._moment_ms = 0

    def _is_on_time(self) -> bool:
        tolerance_s = TOLERANCE_S if self.pace.shared else ALONE_S
        return bool(self._moment_ms) and time.monotonic() - self._opened_at <= tolerance_s

    async def _wait_for_moment(self) -> None:
        asked_at = time.monotonic()
        used_s = None if self._moment_ms or self._left_at is None else asked_at - self._left_at
        granted = await self._ask(used_s)
        if granted.is_too_late:
            raise TooEarly
        await asyncio.sleep(granted.wait_s)
        self._moment_ms, self._opened_at = granted.moment_ms, asked_at + granted.wait_s

    async def _ask(self, used_s: float | None) -> Granted:
        try:
            return await self.departures.ask(
                Departure(
                    host=self.lease.host,
                    moment_ms=self._moment_ms,
                    ago_s=used_s,
                    most_s=self.patience_s,
                )
            )
        except SkitterError as error:
            if not error.retryable:
                raise
            raise TooEarly from error  # the server is away: later
