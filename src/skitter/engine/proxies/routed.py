"""A fetcher that sends each request by a route, which its callers need not know.

A page that arrived is good. A ban, a block page or silence counts against the route at this domain;
a 404 or a broken page, against nobody; a proxy that does not work, against the route everywhere.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import urlsplit

import msgspec

from skitter.engine.proxies.bandit import Exit
from skitter.engine.proxies.choosing import Ledger, Purse, Routes
from skitter.engine.verdict import blocker_of
from skitter.errors import AddressRefused, ConnectFailed, FetchError, ProxyFault, ResponseTooLarge
from skitter.fetch.http.fetcher import HttpFetcher
from skitter.fetch.http.guard import Guard
from skitter.fetch.session import ROUTE, SESSION
from skitter.frontier.control import set_state
from skitter.frontier.sites.sessions import FREE, Cost, FleetRoutes
from skitter.model import State
from skitter.observe.metrics import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from skitter.engine.proxies.choosing import RoutedRequest
    from skitter.fetch.browser.render import Render, Renderer
    from skitter.fetch.http.fetcher import Fetcher, Leave
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.sites.sessions import RouteVerdict
    from skitter.frontier.transport.connection import Server
    from skitter.model import Request, Response
    from skitter.settings import Route, WorkerConfig

#: `route://NAME/SESSION` in place of a proxy: that route, with that session at its gateway.
SCHEME: Final = "route://"
BANS: Final = frozenset({403, 429})
#: What APIs answer if the problem is our account, not the page: key, plan, too many at a time.
API_FAULTS: Final = {401: "rejects our key", 403: "refuses our plan", 429: "has no free slot"}
#: What a proxy answers if it cannot reach the page. A site may answer so too, but then it does so
#: on every route: so it counts against the route at this domain.
GATEWAY_ERRORS: Final = frozenset({502, 504})
SAY_EVERY_S: Final = 10.0
RAISE: Final = "Raise it, restart the workers if it is a proxy's, and `skitter resume` it."
BILLED: Final = frozenset({200, 404})


@dataclass(frozen=True, slots=True)
class RoutedFetcher:
    """`api` calls scraping APIs: its guard allows their hosts, so it must not fetch pages."""

    inner: Fetcher
    routes: Routes
    guard: Guard
    api: Fetcher | None = None
    figures: Recorder = field(default_factory=Recorder)

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        if proxy and not proxy.startswith(SCHEME):
            return await self.inner.fetch(request, leave=leave, proxy=proxy)
        wanted, _, mark = (proxy or "").removeprefix(SCHEME).partition("/")
        if not proxy and (session := SESSION.get()):
            trip = await self.routes.begin(request, wanted=session.route)
            session.go_by(trip.exit.route.name)
            mark = session.id if session.number else ""
        else:
            trip = await self.routes.begin(request, wanted=wanted)
        ROUTE.set(trip.exit.route.name)
        verdict: RouteVerdict = "page"  # a cancellation is nobody's fault
        cost = trip.reserved
        try:
            response = await self._send(request, trip, mark, leave)
            verdict, cost = judge(response, trip.exit.route), cost_of(response, trip.exit)
            return response
        except FetchError as error:
            verdict = judge_failure(error)
            if isinstance(error, ProxyFault | ConnectFailed):
                cost = FREE
            raise
        finally:
            self.routes.end(trip, verdict, cost)
            self.figures.count("proxy_money_micro", cost.money if trip.has_left else 0)

    async def _send(
        self, request: Request, trip: RoutedRequest, session: str, leave: Leave | None
    ) -> Response:
        route = trip.exit.route

        async def go() -> None:
            if leave is not None:
                await leave()
            trip.has_left, trip.started_at = True, time.monotonic()

        if route.timeout_s and request.timeout_s is None:
            request = msgspec.structs.replace(request, timeout_s=route.timeout_s)
        if route.kind == "api":
            return await self._ask_api(request, trip, session, go)
        proxy = trip.exit.proxy(country=request.country, session=session)
        return await self.inner.fetch(request, leave=go, proxy=proxy)

    async def _ask_api(
        self, request: Request, trip: RoutedRequest, session: str, leave: Leave
    ) -> Response:
        """The page's response. The API's own errors and URL, which contains our key, are hidden."""
        assert self.api is not None
        self.guard.check_url(request.url)
        try:
            asked = trip.exit.through_api(request, session=session)
            response = await self.api.fetch(asked, leave=leave)
        except FetchError as error:
            _refer(error, request.url, trip)
        if why := API_FAULTS.get(response.status):
            raise ProxyFault(request.url, f"{trip.exit.route.name} {why} ({response.status})")
        return msgspec.structs.replace(response, url=request.url)


def _refer(error: FetchError, url: str, trip: RoutedRequest) -> NoReturn:
    if isinstance(error, ConnectFailed | AddressRefused):
        raise ProxyFault(url, f"{trip.exit.route.name} cannot be reached") from None
    raise type(error)(url, error.reason) from None


@dataclass(frozen=True, slots=True)
class RoutedRenderer:
    """A browser that uses routes, except those that are APIs."""

    routed: RoutedFetcher
    renderer: Renderer

    async def render(
        self,
        request: Request,
        how: Render,
        *,
        leave: Leave | None = None,
        proxy: str | None = None,
    ) -> Response:
        routes = self.routed.routes
        exits = {name: route for name, route in routes.exits.items() if route.route.kind != "api"}
        browser = replace(
            self.routed, inner=_Browser(self.renderer, how), routes=replace(routes, exits=exits)
        )
        return await browser.fetch(request, leave=leave, proxy=proxy)


@dataclass(frozen=True, slots=True)
class _Browser:
    renderer: Renderer
    how: Render

    async def fetch(
        self, request: Request, *, leave: Leave | None = None, proxy: str | None = None
    ) -> Response:
        return await self.renderer.render(request, self.how, leave=leave, proxy=proxy)


@asynccontextmanager
async def open_routed(
    inner: Fetcher,
    frontier: Frontier,
    config: WorkerConfig,
    *,
    guard: Guard,
    log: Callable[[str, str], None],
) -> AsyncIterator[RoutedFetcher]:
    """The routes of a worker, opened. Raises UsageError if a secret is missing."""

    said: list[float] = []

    async def pause(why: str) -> None:
        await set_state(frontier, State.PAUSED)
        if not said or time.monotonic() - said[-1] > SAY_EVERY_S:  # each page in flight comes here
            said.append(time.monotonic())
            log("error", f"{why}: the crawl is paused. {RAISE}")

    async with open_routes(frontier.server, config, log) as (routes, api):
        purse = Purse(frontier.job, lambda: frontier.options.limits.max_money)
        yield RoutedFetcher(inner, replace(routes, on_spent=pause, purse=purse), guard, api)


@asynccontextmanager
async def open_routes(
    server: Server, config: WorkerConfig, log: Callable[[str, str], None]
) -> AsyncIterator[tuple[Routes, Fetcher]]:
    """The routes of the region, and the client for those that are APIs. Raises UsageError."""
    routes = [route for route in config.proxies if route.is_for(config.routes.region)]
    exits = {route.name: Exit.open(route) for route in routes}
    hosts = frozenset(urlsplit(route.url).netloc for route in routes if route.kind == "api")
    own = replace(config.fetch, headers={})  # they are for pages, not for providers
    async with (
        Ledger(FleetRoutes.on(server), log, exits.keys()) as ledger,
        HttpFetcher(own, guard=Guard(hosts)) as api,
    ):
        yield Routes(exits, ledger, config.routes, config.fetch), api


def judge(response: Response, route: Route) -> RouteVerdict:
    """What a response says about its route. Pure."""
    if response.status in BANS or blocker_of(response):
        return "ban"
    if response.status < 400:
        return "good"
    if route.kind == "gateway" and response.url.startswith("http://"):  # no tunnel: who answered?
        if "error=" in (response.header("proxy-status") or ""):  # RFC 9209: the proxy itself
            return "fault"
        if response.status in GATEWAY_ERRORS:
            return "ban"
    # An API answers 500 after trying for a minute in vain.
    return "ban" if route.kind == "api" and response.status >= 500 else "page"


def judge_failure(error: FetchError) -> RouteVerdict:
    """What a failed fetch says about its route. A time-out or a reset may be a ban."""
    if isinstance(error, ProxyFault):
        return "fault"
    return "page" if isinstance(error, ResponseTooLarge | AddressRefused) else "ban"


def cost_of(response: Response, exit: Exit) -> Cost:
    """Bytes are counted unpacked, so a provider counts fewer. A browser loads more than the page;
    all of that is counted, on the wire."""
    size = len(response.body) + sum(len(name) + len(value) for name, value in response.headers)
    size = response.moved_bytes or size
    billed = exit.route.billed == "all" or response.status in BILLED
    return Cost(size, exit.price(bytes=size) if billed else 0)
