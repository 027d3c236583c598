"""The worker's choice of routes, by what the fleet has learned."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Final, Self

import msgspec

from skitter.domains import registrable_domain
from skitter.engine.departures import TooEarly
from skitter.engine.proxies.bandit import GB, MILLIONTHS, Aims, Arms, Price, choose
from skitter.engine.pulse import cancel_all
from skitter.errors import NoRoute, SkitterError
from skitter.fetch.http.guard import authority_of
from skitter.frontier.sites.sessions import (
    FREE,
    NO_LIMIT,
    Cost,
    RouteLimits,
    Settled,
    purse_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from skitter.engine.proxies.bandit import Exit
    from skitter.frontier.sites.sessions import FleetRoutes, Known, RouteVerdict
    from skitter.model import Request
    from skitter.settings import FetchOptions, Route, RouteOptions


MAX_DOMAINS: Final = 10_000
#: How old the copy of a domain may get while no request there is settled.
FRESH_S: Final = 5.0
BATCH: Final = 100
#: How long results wait for a batch; those that hold a place others may need do not wait.
LINGER_S: Final = 0.5
ASK_MS: Final = 1000.0
LONGEST_PAUSE_S: Final = 5.0


@dataclass(slots=True)
class Ledger:
    """The worker's copy of what the fleet knows about routes, and what it has yet to report. Use it
    as `async with`: it reports in batches."""

    fleet: FleetRoutes
    log: Callable[[str, str], None]  # level, text
    routes: Collection[str] = ()  # ours; others are not logged
    _arms: dict[str, tuple[Arms, float]] = field(default_factory=dict)  # by domain, with time read
    _rests: dict[str, float] = field(default_factory=dict)  # until when, in the server's ms
    _ahead_ms: float = 0.0  # how far the server's clock is ahead of ours
    _waiting: list[Settled] = field(default_factory=list)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _some: asyncio.Event = field(default_factory=asyncio.Event)
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._task:
            await cancel_all([self._task])
        with suppress(SkitterError):
            await self._flush()

    @property
    def now_ms(self) -> float:
        """The server's clock."""
        return 1000 * time.monotonic() + self._ahead_ms

    def rests_s(self, route: str) -> float:
        """How long the route rests because its proxy does not work; 0: it is usable."""
        return max(0.0, self.rests_until(route) - self.now_ms) / 1000

    def rests_until(self, route: str) -> float:
        """In the server's ms."""
        return self._rests.get(route, 0.0)

    async def known(self, domain: str) -> Arms:
        """How routes did at a domain; while the server is away, as far as we know."""
        if not self._is_fresh(domain):
            async with self._asking:  # concurrent callers share one answer
                if not self._is_fresh(domain):
                    with suppress(SkitterError):
                        self._take_in(await self.fleet.settle(domain=domain))
        return self._arms.setdefault(domain, (Arms(), time.monotonic()))[0]

    def _is_fresh(self, domain: str) -> bool:
        _, read_at = self._arms.get(domain, (None, -FRESH_S))
        return time.monotonic() - read_at < FRESH_S

    def add(self, settled: Settled) -> None:
        """Count it here at once, and in the fleet soon."""
        self._learn(settled)
        self._waiting.append(settled)
        self._some.set()
        if settled.verdict == "fault":  # until the fleet says whether it rests
            self._rests[settled.route] = max(self.rests_until(settled.route), self.now_ms + ASK_MS)
        if settled.place or settled.verdict == "fault" or len(self._waiting) >= BATCH:
            self._hurry.set()

    def _learn(self, settled: Settled) -> None:
        if settled.verdict in ("good", "ban") and settled.domain in self._arms:
            self._arms[settled.domain][0].learn(
                settled.route,
                is_good=settled.verdict == "good",
                seconds=settled.seconds,
                mb=settled.cost.bytes / 2**20,
                now_ms=self.now_ms,
            )

    async def _run(self) -> None:
        pause_s = LINGER_S
        while True:
            await self._some.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._hurry.wait()
            try:
                await self._flush()
                pause_s = LINGER_S
            except SkitterError as error:
                if pause_s == LINGER_S:
                    self.log("warning", f"cannot report routes to the fleet: {error}")
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
                self._hurry.clear()

    async def _flush(self) -> None:
        while batch := self._waiting[:BATCH]:
            known = await self.fleet.settle(batch)
            del self._waiting[: len(batch)]
            self._take_in(known)
        self._some.clear()
        self._hurry.clear()

    def _take_in(self, known: Known) -> None:
        """Replace our numbers by the fleet's, plus what we have not sent yet."""
        self._ahead_ms = known.now_ms - 1000 * time.monotonic()
        for domain, packed in known.domains.items():
            while len(self._arms) >= MAX_DOMAINS:
                del self._arms[next(iter(self._arms))]
            self._arms[domain] = _open(packed), time.monotonic()
        for settled in self._waiting:
            if settled.domain in known.domains:
                self._learn(settled)
        for route, counts in known.routes.items():
            self._note_rest(route, counts.get("rests", 0.0))

    def _note_rest(self, route: str, until_ms: float) -> None:
        if route in self.routes and until_ms > max(self.now_ms, self.rests_until(route)):
            rest_s = (until_ms - self.now_ms) / 1000
            self.log("error", f"proxy {route} does not work: it is paused for {rest_s:.0f} s")
        self._rests[route] = until_ms


def _open(packed: bytes) -> Arms:
    """Anybody may have written it: if it cannot be decoded, nothing is known."""
    try:
        return msgspec.msgpack.decode(packed, type=Arms)
    except ValueError:  # msgspec's errors are ValueErrors
        return Arms()


#: How long a request waits here for a route; a longer wait is spent in the frontier.
PATIENCE_S: Final = 5.0


@dataclass(slots=True, eq=False)
class RoutedRequest:
    """One request by one route."""

    exit: Exit
    domain: str
    place: str = ""  # empty: the route has no limits
    reserved: Cost = FREE
    purse: Settled | None = None  # what is set aside of the job's money
    has_left: bool = False
    started_at: float = field(default_factory=time.monotonic)

    def settled(self, verdict: RouteVerdict, cost: Cost) -> Settled:
        return Settled(
            place=self.place,
            route=self.exit.route.name,
            domain=self.domain,
            verdict=verdict if self.has_left else "unused",
            cost=cost if self.has_left else FREE,
            reserved=self.reserved,
            seconds=time.monotonic() - self.started_at,
        )


@dataclass(frozen=True, slots=True)
class Purse:
    """What a job may spend, by whichever routes. The fleet counts it as a route's budget."""

    job: str
    limit: Callable[[], float | None]  # now; None: as much as the routes may


@dataclass(slots=True)
class Routes:
    """Chooses the route of a request, per registrable domain."""

    exits: dict[str, Exit]
    ledger: Ledger
    options: RouteOptions
    fetch: FetchOptions
    on_spent: Callable[[str], Awaitable[None]] | None = None  # called when no budget is left
    purse: Purse | None = None
    chance: Random = field(default_factory=Random)
    _spent: set[str] = field(default_factory=set)

    async def choose(self, url: str, *, country: str = "") -> str:
        """The route for a new session, or for a request without one. Raises NoRoute if none leaves
        from that country, TooEarly if all are resting or have spent their budgets."""
        able = [name for name, route in self.exits.items() if route.route.leaves_from(country)]
        if not able:
            where = f"from {country!r}" if country else "from here"
            raise NoRoute(url, f"no proxy exits {where}: see [[proxy]] in skitter.toml")
        known = await self.ledger.known(domain_of(url))
        awake = [name for name in able if self.is_usable(name)]
        if not awake:
            await self._wait_for(able)
        prices = {name: price_of(self.exits[name].route) for name in awake}
        aims = Aims(self.options.page_value, self.options.success_rate, self.options.price_per_s)
        return choose(prices, known, aims, chance=self.chance, now_ms=self.ledger.now_ms)

    def is_usable(self, name: str) -> bool:
        """Whether it is ours, is not resting, and has budget left."""
        return name in self.exits and name not in self._spent and not self.ledger.rests_s(name)

    async def _wait_for(self, able: Iterable[str]) -> None:
        """The pages are not to blame and must not leave without a route: they wait in the
        frontier."""
        resting = [self.ledger.rests_s(name) for name in able if name not in self._spent]
        if resting:
            await asyncio.sleep(min(PATIENCE_S, min(resting) + 0.01))
        elif self.on_spent:
            await self.on_spent(f"the budget of {', '.join(able)} is spent")
        raise TooEarly

    async def begin(self, request: Request, *, wanted: str = "") -> RoutedRequest:
        """A route, `wanted` if it is usable, and a place on it. Raises NoRoute or TooEarly."""
        while True:
            good = self.is_usable(wanted) and self.exits[wanted].route.leaves_from(request.country)
            name = wanted if good else await self.choose(request.url, country=request.country)
            trip = RoutedRequest(self.exits[name], domain_of(request.url))
            await self._open_purse(trip)
            try:
                if not trip.exit.route.is_limited or await self._take_place(trip):
                    trip.started_at = time.monotonic()
                    return trip
            except BaseException:
                self._close_purse(trip, FREE)
                raise
            self._close_purse(trip, FREE)

    async def _open_purse(self, trip: RoutedRequest) -> None:
        """Set aside what the request may cost. Raises TooEarly if the job has no money left."""
        most = trip.exit.price(bytes=self._largest)
        if not most or self.purse is None or (limit := self.purse.limit()) is None:
            return
        limits, name = RouteLimits(money=int(limit * MILLIONTHS)), purse_of(self.purse.job)
        reserve, place = Cost(0, most), secrets.token_hex(8)
        if await self._take(place, name, limits, reserve, trip.exit.route):
            trip.purse = Settled(
                place=place, route=name, domain=trip.domain, verdict="unused", reserved=reserve
            )
            return
        if self.on_spent:
            await self.on_spent(f"the money of {self.purse.job} is spent (max_money={limit:g})")
        raise TooEarly

    def _close_purse(self, trip: RoutedRequest, cost: Cost) -> None:
        if trip.purse:
            self.ledger.add(replace(trip.purse, cost=Cost(0, cost.money)))

    @property
    def _largest(self) -> int:
        """Bytes of the largest response."""
        return self.fetch.max_body_bytes + self.fetch.max_header_bytes

    async def _take_place(self, trip: RoutedRequest) -> bool:
        """False: the budget is spent."""
        route, place = trip.exit.route, secrets.token_hex(8)
        size = self._largest if route.has_budget else 0
        reserve = Cost(size, trip.exit.price(bytes=size))
        if not await self._take(place, route.name, limits_of(route), reserve, route):
            self._note_spent(route)
            return False
        trip.place, trip.reserved = place, reserve
        return True

    async def _take(
        self, place: str, name: str, limits: RouteLimits, reserve: Cost, route: Route
    ) -> bool:
        """False: the budget is spent. Raises TooEarly if others hold what is left."""
        ttl_s = 2 * (route.timeout_s or self.fetch.total_timeout_s)
        fleet, give_up_at = self.ledger.fleet, time.monotonic()
        while wait_ms := await fleet.take(place, name, limits, reserve, ttl_s=ttl_s):
            if wait_ms < 0:
                return False
            if time.monotonic() - give_up_at > PATIENCE_S:
                raise TooEarly
            await asyncio.sleep(wait_ms / 1000)
        return True

    def _note_spent(self, route: Route) -> None:
        if route.name not in self._spent:
            self._spent.add(route.name)
            self.ledger.log("error", f"the budget of proxy {route.name} is spent")

    def end(self, trip: RoutedRequest, verdict: RouteVerdict, cost: Cost) -> None:
        self.ledger.add(trip.settled(verdict, cost))
        self._close_purse(trip, cost if trip.has_left else FREE)


def domain_of(url: str) -> str:
    return registrable_domain(authority_of(url).name)


def price_of(route: Route) -> Price:
    return Price(route.price_per_request, route.price_per_gb / 1024)


def limits_of(route: Route) -> RouteLimits:
    def whole(limit: float | None, unit: float = 1.0) -> int:
        return NO_LIMIT if limit is None else int(limit * unit)

    return RouteLimits(
        in_flight=whole(route.max_in_flight),
        gap_ms=1000 / route.max_per_s if route.max_per_s else NO_LIMIT,
        requests=whole(route.budget_requests),
        bytes=whole(route.budget_mb, GB / 1024),
        money=whole(route.budget, MILLIONTHS),
    )
