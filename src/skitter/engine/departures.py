"""Departures: when a request may leave, and reporting when it did, as that starts its host's clock.

A lease is a turn at its host, and most requests leave at once. One that leaves later (a handler
blocked the process, robots.txt was fetched first) would come too close to the next, so its lateness
is reported before its lease ends. Where a host allows several requests in flight, and for the
second request of an attempt, the frontier is asked for a moment first. This costs no call while
requests leave on time, and nothing at all where there is no delay.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NamedTuple

from skitter.domains import host_of, host_without_port, is_address
from skitter.errors import SkitterError
from skitter.frontier.control import set_slot
from skitter.frontier.delays import Departure, Granted, SentRequest
from skitter.frontier.sites.hosts import InFlightPlace, begin_rest, give_back, take_turn
from skitter.frontier.transport.messages import ms
from skitter.model import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.fetch.http.guard import Resolver
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease

#: If a request alone at its host is later than this, that is reported before its lease ends; if
#: less, with the end. Also the slack of a clock that jobs or hosts share.
TOLERANCE_S: Final = 0.01
#: No other request has a turn during ours, but a suspended process may have lost its lease.
ALONE_S: Final = 5.0
#: The server's clock is truncated to milliseconds.
TICK_S: Final = 0.001
#: How long a moment lasts, first and after each one missed (the process is very busy). Longer
#: ones make the host's next request wait.
HOLDS_S: Final = (0.0, 0.02, 0.1, 1.0, ALONE_S)
#: How long a request waits here for its moment; a longer wait is spent in the frontier. After
#: robots.txt that costs little, as there are other hosts; after a redirect it would start over.
PATIENCE_S: Final = 10.0
PATIENCE_AFTER_ROBOTS_S: Final = 0.05
PATIENCE_AFTER_REDIRECT_S: Final = 86_400.0
MAX_UNREPORTED: Final = 10_000
UNKNOWN_MS: Final = 2**53


class TooEarly(Exception):
    """The request would leave too early, and does not wait here for its moment."""


@dataclass(slots=True, eq=False)
class _Ask:
    departure: Departure
    granted: Granted | None = None


class _Trip(NamedTuple):
    lease: Lease
    url: str
    left_at: float
    ended_at: float

    def as_sent(self, now: float) -> SentRequest:
        pace = self.lease.pace
        assert pace is not None
        known = bool(pace.moment_ms)  # else the lease does not say when its turn was
        at_ms = pace.moment_ms + ms(self.left_at - pace.since) if known else UNKNOWN_MS
        took_s, ago_s = self.ended_at - self.left_at, now - self.left_at
        return SentRequest(self.lease.host, self.url, at_ms, ago_s, took_s, pace.delay_s)


@dataclass(slots=True)
class Departures:
    """The departures of one worker."""

    frontier: Frontier
    resolver: Resolver | None = None  # None: host names stand for addresses
    _left: dict[str, float] = field(default_factory=dict)  # fingerprint -> when it left, if late
    _trips: list[_Trip] = field(default_factory=list)
    #: By shard, so that none waits for another.
    _asks: defaultdict[int, list[_Ask]] = field(default_factory=lambda: defaultdict(list))
    _asking: defaultdict[int, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    def gate(self, lease: Lease) -> Gate | None:
        """The gate for the requests of an attempt; None: they may leave at any time."""
        polite = self.frontier.options.politeness
        if polite.shared or polite.per == "address":
            return SharedGate(self, lease, lease.pace or Pace(0, 0.0, 0.0, time.monotonic()))
        return None if lease.pace is None else Gate(self, lease, lease.pace)

    async def clock_of(self, lease: Lease) -> str:
        """The clock a request shares with others of its host or address, in this job or in all."""
        polite = self.frontier.options.politeness
        whom = await self._address_of(lease) if polite.per == "address" else lease.host
        return whom if polite.shared else f"{self.frontier.job} {whom}"

    async def _address_of(self, lease: Lease) -> str:
        """The same address for all requests of a host, even if it has several."""
        name = host_without_port(host_of(lease.url)).strip("[]")
        if self.resolver is None or is_address(name):
            return name
        try:
            return min(await self.resolver.resolve(name))
        except (OSError, UnicodeError):  # the fetch will report it
            return name

    def note_now(self, lease: Lease) -> None:
        """A request of this lease has left, just now or earlier."""
        self.note(lease, left_at=time.monotonic(), late_s=math.inf)

    def note(self, lease: Lease, *, left_at: float, late_s: float) -> None:
        if late_s <= TOLERANCE_S:
            self._left.pop(lease.fingerprint, None)
            return
        if len(self._left) >= MAX_UNREPORTED:
            self._left.pop(next(iter(self._left)))
        self._left[lease.fingerprint] = left_at

    def record(self, lease: Lease, url: str, *, left_at: float) -> None:
        """A request of this lease has ended."""
        if lease.pace and len(self._trips) < MAX_UNREPORTED:
            self._trips.append(_Trip(lease, url, left_at, time.monotonic()))

    async def report(self, leases: Iterable[Lease]) -> None:
        """Report trips and late departures, before the leases end and others get their turn. Trips
        to other shards wait for the leases there."""
        leases = list(leases)
        if self._trips:
            await self._report_trips({self._shard_of(lease) for lease in leases})
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

    async def _report_trips(self, shards: set[int]) -> None:
        now = time.monotonic()
        trips = [trip for trip in self._trips if self._shard_of(trip.lease) in shards]
        if trips:
            await self.frontier.record([trip.as_sent(now) for trip in trips])
        sent = set(map(id, trips))
        self._trips = [trip for trip in self._trips if id(trip) not in sent]

    def _shard_of(self, lease: Lease | Departure) -> int:
        return self.frontier.layout.shard_of(lease.host)

    async def ask(self, departure: Departure) -> Granted:
        """Requests that ask during a call share the next one."""
        ask, shard = _Ask(departure), self._shard_of(departure)
        self._asks[shard].append(ask)
        async with self._asking[shard]:
            if ask.granted is None:
                await self._ask_for_all(ask, shard)
        assert ask.granted is not None
        return ask.granted

    async def _ask_for_all(self, ask: _Ask, shard: int) -> None:
        # Another task that took our ask into its call may have been cancelled.
        asks, self._asks[shard] = [ask, *(one for one in self._asks[shard] if one is not ask)], []
        granted = await self.frontier.depart([ask.departure for ask in asks])
        for one, answer in zip(asks, granted, strict=True):
            one.granted = answer


@dataclass(slots=True)
class Gate:
    """Decides when the requests of one attempt may leave."""

    departures: Departures
    lease: Lease
    pace: Pace
    patience_s: float = PATIENCE_S
    left_ms: int = 0  # by the server's clock; 0: unknown, or others have had a turn since
    _left_at: float | None = None
    _is_under_way: bool = False
    _moment_ms: int = 0  # our turn; 0: used
    _opened_at: float = 0.0  # our turn began no earlier
    _asked: int = 0  # moments asked for since a request left

    def __post_init__(self) -> None:
        self._moment_ms, self._opened_at = self.pace.moment_ms, self.pace.since

    @property
    def was_used(self) -> bool:
        return self._left_at is not None

    @property
    def left_at(self) -> float:
        """By the monotonic clock; 0: nothing has left."""
        return self._left_at or 0.0

    async def leave(self) -> None:
        """Return when the request may leave; it must do so at once. Raises TooEarly."""
        self.arrive()
        while not self._is_on_time():
            await self._wait_for_moment()
        self._is_under_way = True
        self._left_at = time.monotonic()
        self._note(self._left_at)
        self._moment_ms = 0

    def is_still_on_time(self) -> bool:
        """Whether a request handed to another thread may still leave, at once."""
        now, before = time.monotonic(), self.left_at
        is_late = now - self._opened_at > self._tolerance_s
        self._is_under_way = not is_late
        if not is_late:
            self._left_at = now
            self.left_ms += math.ceil(1000 * (now - before)) if self.left_ms else 0
            if now - before > TOLERANCE_S:
                self.departures.note(self.lease, left_at=now, late_s=math.inf)
        return not is_late

    def arrive(self, url: str = "") -> None:
        """The last request has ended, with or without a response."""
        if self._is_under_way and self._left_at is not None:
            self.departures.record(self.lease, url, left_at=self._left_at)
            self._asked = 0
        self._is_under_way = False

    def _note(self, left_at: float) -> None:
        late_s = left_at - self._opened_at
        self.departures.note(self.lease, left_at=left_at, late_s=late_s)
        if self._moment_ms and not self.pace.slack_s:
            self.left_ms = self._moment_ms + math.ceil(1000 * (late_s + TICK_S))

    @property
    def _tolerance_s(self) -> float:
        return self.pace.slack_s - TICK_S if self.pace.slack_s else ALONE_S

    def _is_on_time(self) -> bool:
        return bool(self._moment_ms) and time.monotonic() - self._opened_at <= self._tolerance_s

    async def _wait_for_moment(self) -> None:
        if self._asked == len(HOLDS_S):
            self._asked = 0
            raise TooEarly
        asked_at, hold_s = time.monotonic(), HOLDS_S[self._asked]
        self._asked += 1
        used_s = None if self._moment_ms or self._left_at is None else asked_at - self._left_at
        granted = await self._ask(used_s, hold_s)
        if granted.is_too_late:
            raise TooEarly
        await asyncio.sleep(granted.wait_s)
        self._moment_ms, self._opened_at = granted.moment_ms, asked_at + granted.wait_s + hold_s

    async def _ask(self, used_s: float | None, hold_s: float) -> Granted:
        try:
            return await self._ask_clock(used_s, hold_s)
        except SkitterError as error:
            if not error.retryable:
                raise
            raise TooEarly from error  # the server is away: later

    async def _ask_clock(self, used_s: float | None, hold_s: float) -> Granted:
        return await self.departures.ask(
            Departure(
                host=self.lease.host,
                moment_ms=self._moment_ms,
                ago_s=used_s,
                max_wait_s=self.patience_s,
                hold_s=hold_s,
            )
        )

    async def rest(self, seconds: float) -> None:
        """The host asked for a rest: tell others on its clock now."""

    async def close(self) -> None:
        """The attempt has ended: tell others on its clock now."""


@dataclass(slots=True)
class SharedGate(Gate):
    """A gate on a shared clock, which each request asks before it leaves. As all requests of the
    host do so, the host's own clock is kept too. Those on a clock also share the limit on requests
    in flight."""

    _place: InFlightPlace | None = None
    _has_place: bool = False

    def __post_init__(self) -> None:
        self._moment_ms = 0
        polite = self.departures.frontier.options.politeness
        self._place = InFlightPlace(token_hex(8), polite.max_in_flight)

    @property
    def _tolerance_s(self) -> float:
        return TOLERANCE_S - TICK_S

    def _note(self, left_at: float) -> None:
        if self.lease.pace:
            self.departures.note(self.lease, left_at=left_at, late_s=math.inf)

    async def _ask_clock(self, used_s: float | None, hold_s: float) -> Granted:
        frontier, clock = self.departures.frontier, await self.departures.clock_of(self.lease)
        turn = await take_turn(
            frontier,
            clock,
            self._place,
            delay_s=self.pace.delay_s + TOLERANCE_S + hold_s if self.pace.delay_s else 0.0,
            max_wait_s=self.patience_s,
            moment_ms=self._moment_ms,
        )
        if not turn.moment_ms:
            await set_slot(frontier, self.lease.host, blocked_for_s=turn.wait_s)
            raise TooEarly
        self._has_place = self._place is not None
        return Granted(turn.wait_s, turn.moment_ms)

    async def rest(self, seconds: float) -> None:
        with suppress(SkitterError):  # our own job learns it when the lease ends
            clock = await self.departures.clock_of(self.lease)
            await begin_rest(self.departures.frontier, clock, for_s=seconds)

    async def close(self) -> None:
        if self._place and self._has_place:
            self._has_place = False
            with suppress(SkitterError):  # the place expires after a while
                clock = await self.departures.clock_of(self.lease)
                await give_back(self.departures.frontier, clock, self._place)
