"""All routes on the same URLs: what each brings, how fast, and for how much."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skitter.engine.departures import TooEarly
from skitter.errors import FetchError
from skitter.fetch.bandit import NEARLY
from skitter.fetch.exits import MILLIONTHS
from skitter.model import Request
from skitter.worker.routed import RoutedFetcher, cost_of, judge, judge_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skitter.frontier.routes import Verdict
    from skitter.model import Response
    from skitter.settings import RouteOptions


@dataclass(slots=True)
class Tried:
    """What one route brought."""

    route: str
    verdicts: dict[Verdict, int] = field(default_factory=dict)
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
    """Fetch each URL once, one after the other, by this route only."""
    routes, tried = fetcher.routes, Tried(route)
    only = replace(fetcher, routes=replace(routes, exits={route: routes.exits[route]}))
    for url in urls:
        try:
            response = await only.fetch(Request(url=url))
        except TooEarly:
            tried.problem = "it is resting, or its budget is spent"
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


def _count(tried: Tried, verdict: Verdict) -> None:
    tried.verdicts[verdict] = tried.verdicts.get(verdict, 0) + 1


def recommend(tried: Sequence[Tried], options: RouteOptions) -> str:
    """The route that crawls would settle on, chance aside; empty: none brought a page."""
    able = [one for one in tried if one.good]
    if not able:
        return ""

    def cost(one: Tried) -> float:
        requests = sum(one.verdicts.values())
        return one.money / requests + options.price_per_s * one.median_s + 1e-9

    if (value := options.page_value) is not None:
        return max(able, key=lambda one: one.success * value - cost(one)).route
    enough = min(options.success_rate, NEARLY * max(one.success for one in able))
    return max(
        (one for one in able if one.success >= enough), key=lambda one: one.success / cost(one)
    ).route
