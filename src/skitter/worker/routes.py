"""Chooses the route of a request, per registrable domain, by what the fleet has learned."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from skitter.domains import registrable_domain
from skitter.engine.departures import TooEarly
from skitter.errors import NoRoute
from skitter.fetch.bandit import Aims, Price, choose
from skitter.fetch.exits import GB, MILLIONTHS
from skitter.fetch.guard import authority_of
from skitter.frontier.routes import FREE, NO_LIMIT, Cost, RouteLimits, Settled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from skitter.fetch.exits import Exit
    from skitter.frontier.routes import Verdict
    from skitter.model import Request
    from skitter.settings import FetchOptions, Route, RouteOptions
    from skitter.worker.ledger import Ledger

#: How long a request waits here for a route; a longer wait is spent in the frontier.
PATIENCE_S: Final = 5.0


@dataclass(slots=True, eq=False)
class Trip:
    """One request by one route."""

    exit: Exit
    domain: str
    place: str = ""  # empty: the route has no limits
    reserved: Cost = FREE
    has_left: bool = False
    started_at: float = field(default_factory=time.monotonic)

    def settled(self, verdict: Verdict, cost: Cost) -> Settled:
        return Settled(
            place=self.place,
            route=self.exit.route.name,
            domain=self.domain,
            verdict=verdict if self.has_left else "unused",
            cost=cost if self.has_left else FREE,
            reserved=self.reserved,
            seconds=time.monotonic() - self.started_at,
        )


@dataclass(slots=True)
class Routes:
    """The routes of one worker."""

    exits: dict[str, Exit]
    ledger: Ledger
    options: RouteOptions
    fetch: FetchOptions
    on_spent: Callable[[str], Awaitable[None]] | None = None  # called when no route has budget left
    chance: Random = field(default_factory=Random)
    _spent: set[str] = field(default_factory=set)

    async def choose(self, url: str, *, country: str = "") -> str:
        """The route for a new session, or for a request without one. Raises NoRoute if none leaves
        from that country, TooEarly if all are resting or have spent their budgets."""
        able = [name for name, one in self.exits.items() if one.route.leaves_from(country)]
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

    async def begin(self, request: Request, *, wanted: str = "") -> Trip:
        """A route, `wanted` if it is usable, and a place on it. Raises NoRoute or TooEarly."""
        while True:
            good = self.is_usable(wanted) and self.exits[wanted].route.leaves_from(request.country)
            name = wanted if good else await self.choose(request.url, country=request.country)
            trip = Trip(self.exits[name], domain_of(request.url))
            if not trip.exit.route.is_limited or await self._take_place(trip):
                trip.started_at = time.monotonic()
                return trip

    async def _take_place(self, trip: Trip) -> bool:
        """False: the budget is spent."""
        route, place, give_up_at = trip.exit.route, secrets.token_hex(8), time.monotonic()
        size = self.fetch.max_body_bytes + self.fetch.max_header_bytes if route.has_budget else 0
        reserve = Cost(size, trip.exit.price(bytes=size))
        ttl_s = 2 * (route.timeout_s or self.fetch.total_timeout_s)
        fleet, limits = self.ledger.fleet, limits_of(route)
        while wait_ms := await fleet.take(place, route.name, limits, reserve, ttl_s=ttl_s):
            if wait_ms < 0:
                self._note_spent(route)
                return False
            if time.monotonic() - give_up_at > PATIENCE_S:
                raise TooEarly
            await asyncio.sleep(wait_ms / 1000)
        trip.place, trip.reserved = place, reserve
        return True

    def _note_spent(self, route: Route) -> None:
        if route.name not in self._spent:
            self._spent.add(route.name)
            self.ledger.log("error", f"the budget of proxy {route.name} is spent")

    def end(self, trip: Trip, verdict: Verdict, cost: Cost) -> None:
        self.ledger.add(trip.settled(verdict, cost))


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
