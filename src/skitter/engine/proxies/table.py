"""How routes do: in the fleet's crawls, and in a test of all."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from skitter.engine.departures import TooEarly
from skitter.engine.proxies.bandit import MILLIONTHS, NEARLY, Arm, Arms
from skitter.engine.proxies.routed import RoutedFetcher, cost_of, judge, judge_failure
from skitter.errors import FetchError
from skitter.frontier.sites.sessions import FleetRoutes, is_purse
from skitter.model import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skitter.frontier.sites.sessions import RouteVerdict
    from skitter.frontier.transport.connection import Server
    from skitter.model import Response
    from skitter.settings import RouteOptions


ALL = "(all)"


class RouteRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one proxy delivered: for one domain, or for all of them, which is "(all)"."""

    domain: str
    proxy: str
    good: int
    bans: int
    page_faults: int
    proxy_faults: int
    success: float | None  # the share of good pages; page faults are not the proxy's
    mb: float
    cost: float
    cost_per_1000_good: float | None


async def route_rows(server: Server, domain: str | None = None) -> list[RouteRow]:
    """A row per proxy, and one per domain and proxy, for `skitter proxy stats` and the HTTP API;
    for one `domain`, only the latter."""
    fleet = FleetRoutes.on(server)
    known = await fleet.settle()
    totals = {} if domain else known.routes
    rows = [_row(ALL, name, totals[name]) for name in sorted(totals) if not is_purse(name)]
    for name in [domain] if domain else await fleet.domains():
        packed = (await fleet.settle(domain=name)).domains.get(name, b"")
        rows += [_of_domain(name, route, arm) for route, arm in sorted(_arms(packed).items())]
    return rows


def _arms(packed: bytes) -> dict[str, Arm]:
    try:
        return msgspec.msgpack.decode(packed, type=Arms).arms
    except ValueError:  # anybody may have written it
        return {}


def _of_domain(domain: str, route: str, arm: Arm) -> RouteRow:
    counts = {"good": arm.good_total, "ban": arm.bans, "page": arm.faults}
    return _row(domain, route, counts | {"bytes": arm.bytes, "money": arm.money})


def _row(domain: str, proxy: str, counts: Mapping[str, float]) -> RouteRow:
    good, bans, pages, faults = (
        int(counts.get(one, 0)) for one in ("good", "ban", "page", "fault")
    )
    tries, spent = good + bans + faults, counts.get("money", 0) / MILLIONTHS
    return RouteRow(
        domain=domain,
        proxy=proxy,
        good=good,
        bans=bans,
        page_faults=pages,
        proxy_faults=faults,
        success=round(good / tries, 4) if tries else None,
        mb=round(counts.get("bytes", 0) / 2**20, 1),
        cost=round(spent, 4),
        cost_per_1000_good=round(1000 * spent / good, 4) if good else None,
    )


@dataclass(slots=True)
class Tried:
    """What one route brought."""

    route: str
    verdicts: dict[RouteVerdict, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)  # of good pages
    money: float = 0.0
    problem: str = ""  # the last one

    @property
    def good(self) -> int:
        return self.verdicts.get("good", 0)

    @property
    def success(self) -> float:
        """The share of good pages among requests that a route can be blamed for."""
        tries = sum(self.verdicts.values()) - self.verdicts.get("page", 0)
        return self.good / tries if tries else 0.0

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds) if self.seconds else 0.0

    @property
    def per_thousand(self) -> float | None:
        """What a thousand good pages cost; None: it brought none."""
        return 1000 * self.money / self.good if self.good else None


async def try_route(fetcher: RoutedFetcher, route: str, urls: Iterable[str]) -> Tried:
    """Fetch each URL once, one after the other, by this route only: what it brings, how fast, for
    how much."""
    routes, tried = fetcher.routes, Tried(route)
    only = replace(fetcher, routes=replace(routes, exits={route: routes.exits[route]}))
    for url in urls:
        try:
            response = await only.fetch(Request(url=url))
        except TooEarly:
            tried.problem = "it is paused, or its budget is spent"
            return tried
        except FetchError as error:
            _count(tried, judge_failure(error))
            tried.problem = error.reason
        else:
            _take(tried, response, only)
    return tried


def _take(tried: Tried, response: Response, fetcher: RoutedFetcher) -> None:
    exit = fetcher.routes.exits[tried.route]
    verdict = judge(response, exit.route)
    _count(tried, verdict)
    tried.money += cost_of(response, exit).money / MILLIONTHS
    if verdict == "good":
        tried.seconds.append(response.elapsed_s)
    else:
        tried.problem = f"answered {response.status}"


def _count(tried: Tried, verdict: RouteVerdict) -> None:
    tried.verdicts[verdict] = tried.verdicts.get(verdict, 0) + 1


def recommend(tried: Sequence[Tried], options: RouteOptions) -> str:
    """The route that crawls would settle on, chance aside; empty: none brought a page."""
    able = [route for route in tried if route.good]
    if not able:
        return ""

    def cost(route: Tried) -> float:
        requests = sum(route.verdicts.values())
        return route.money / requests + options.price_per_s * route.median_s + 1e-9

    if (value := options.page_value) is not None:
        return max(able, key=lambda trial: trial.success * value - cost(trial)).route
    enough = min(options.success_rate, NEARLY * max(trial.success for trial in able))
    return max(
        (trial for trial in able if trial.success >= enough),
        key=lambda trial: trial.success / cost(trial),
    ).route
