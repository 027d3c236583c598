"""Routes: which one to take to a domain, and what to send by it.

The choice is discounted Thompson sampling; chance is an argument. For each domain and route the
fleet counts good pages and bans. Counts decay by 0.995 with each request to the domain and by half
every hour, and keep only about the last 30 pages of a route. A choice draws a success rate for each
route from what is known about it, so a route is tried as often as it may be the best. One about
which little is known any more is tried again: that is how a recovered route is found.

By the rates drawn, the choice is

- if a good page has a value, the route that earns most: rate x value - price;
- otherwise the route with the most good pages for its price among those with the required success
  rate; if there are none, among those within a tenth of the best.

Each second of waiting adds a little to the price, so that the faster of two equals wins.

Discounted Thompson sampling: Qi et al. 2023. "Good enough, then cheapest": Sinha et al. 2021.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, urlsplit

import msgspec

from skitter.settings.proxy import check_country

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from skitter.model import Request
    from skitter.settings import Route


#: lua/lib/routes.lua has the same numbers.
KEPT: Final = 0.995
HALF_LIFE_MS: Final = 3_600_000
MEMORY: Final = 30.0
NEARLY: Final = 0.9
#: Assumed for a page by a route that has brought none yet.
USUAL_S: Final = 0.5
USUAL_MB: Final = 0.1
#: An unknown route is assumed to be rather good, so that it is tried.
HOPE: Final = 2.0


class Arm(msgspec.Struct, array_like=True):
    """What is known about one route to one domain."""

    good: float = 0.0  # these four fade
    bad: float = 0.0
    seconds: float = 0.0
    mb: float = 0.0
    good_total: int = 0  # and these do not
    bans: int = 0
    faults: int = 0  # of pages: 404, 500
    bytes: int = 0
    money: int = 0  # in millionths

    @property
    def tries(self) -> float:
        return self.good + self.bad

    def fade(self, by: float) -> None:
        self.good, self.bad = by * self.good, by * self.bad
        self.seconds, self.mb = by * self.seconds, by * self.mb


class Arms(msgspec.Struct):
    """All routes to one domain."""

    at: float = 0.0  # server ms at which the fading numbers were right
    arms: dict[str, Arm] = {}

    def learn(self, route: str, *, is_good: bool, seconds: float, mb: float, now_ms: float) -> None:
        """Count one page that arrived or was banned, as lua/lib/routes.lua does."""
        fade = KEPT * 0.5 ** (max(0.0, now_ms - self.at) / HALF_LIFE_MS)
        for arm in self.arms.values():
            arm.fade(fade)
        arm = self.arms.setdefault(route, Arm())
        arm.good, arm.bad = arm.good + is_good, arm.bad + (not is_good)
        arm.seconds, arm.mb = arm.seconds + seconds, arm.mb + mb
        arm.fade(min(1.0, MEMORY / arm.tries))
        self.at = max(self.at, now_ms)


@dataclass(frozen=True, slots=True)
class Price:
    """What a request costs."""

    per_request: float = 0.0
    per_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class Aims:
    """What a choice optimizes."""

    page_value: float | None = None  # what a good page is worth, in the currency of the prices
    success_rate: float = 0.7  # required, where pages have no value
    price_per_s: float = 0.0001  # of waiting


@dataclass(frozen=True, slots=True)
class _Drawn:
    name: str
    rate: float
    cost: float


def choose(
    prices: Mapping[str, Price], known: Arms, aims: Aims, *, chance: Random, now_ms: float = 0.0
) -> str:
    """One of the routes that have a price."""
    faded = 0.5 ** (max(0.0, now_ms - known.at) / HALF_LIFE_MS)
    drawn = [
        _draw(name, price, known.arms.get(name, Arm()), aims, faded, chance)
        for name, price in prices.items()
    ]
    if aims.page_value is not None:
        return max(drawn, key=lambda route: route.rate * (aims.page_value or 0.0) - route.cost).name
    enough = min(aims.success_rate, NEARLY * max(route.rate for route in drawn))
    return max(
        (route for route in drawn if route.rate >= enough),
        key=lambda route: route.rate / route.cost,
    ).name


def cost_of(price: Price, arm: Arm) -> float:
    """The cost of a request in money, without waiting."""
    return price.per_request + price.per_mb * (arm.mb + USUAL_MB) / (arm.tries + 1)


def _draw(name: str, price: Price, arm: Arm, aims: Aims, faded: float, chance: Random) -> _Drawn:
    rate = chance.betavariate(HOPE + faded * arm.good, 1 + faded * arm.bad)
    waits_s = (faded * arm.seconds + USUAL_S) / (faded * arm.tries + 1)
    return _Drawn(name, rate, cost_of(price, arm) + aims.price_per_s * waits_s + 1e-9)


GB: Final = 2**30
MILLIONTHS: Final = 10**6
_OPTIONAL: Final = re.compile(r"\[([^\[\]]*)\]")
_FIELD: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Exit:
    """A route ready for use: the gateway's URL for a country and session, or the API's for a page.

    Its secret is kept here, in the worker's memory, and nowhere else.
    """

    route: Route
    secret: str = field(default="", repr=False)

    @classmethod
    def open(cls, route: Route) -> Self:
        """Raises UsageError if its secret is missing."""
        return cls(route, route.read_secret() if route.secret else "")

    def proxy(self, *, country: str = "", session: str = "") -> str | None:
        """The proxy's URL; None: direct. It contains only a hash of the session's name."""
        if self.route.kind != "gateway":
            return None
        parts = urlsplit(self.route.url)
        user = fill(self.route.template or "{user}", self._values(country, session))
        if not user:
            return self.route.url
        password = f":{quote(self.secret, safe='')}" if self.secret else ""
        return f"{parts.scheme}://{quote(user, safe='')}{password}@{parts.netloc}"

    def through_api(self, request: Request, *, session: str = "") -> Request:
        """The request to the API that fetches the page for us."""
        values = self._values(request.country, session)
        values |= {"url": request.url, "secret": self.secret}
        values |= {"headers": "true" if request.headers else ""}
        query = fill(
            self.route.template, {name: quote(value, safe="") for name, value in values.items()}
        )
        return msgspec.structs.replace(request, url=f"{self.route.url}?{query}")

    def price(self, *, bytes: int) -> int:
        """In millionths, rounded up."""
        money = self.route.price_per_request + self.route.price_per_gb * bytes / GB
        return -int(-money * MILLIONTHS // 1)

    def _values(self, country: str, session: str) -> dict[str, str]:
        """The country becomes part of user names, so it is checked here. Raises BadOption."""
        country = check_country(country) if country else ""
        mark = blake2b(session.encode(), digest_size=6).hexdigest() if session else ""
        return {
            "user": self.route.user,
            "country": country,
            "COUNTRY": country.upper(),
            "session": mark,
            "number": str(int(mark, 16) % 10_000) if mark else "",
        }


def fill(template: str, values: dict[str, str]) -> str:
    """Fill in the template; a part in brackets is dropped if one of its fields is empty."""

    def part(found: re.Match[str]) -> str:
        fields = _FIELD.findall(found[1])
        return found[1] if all(values.get(name) for name in fields) else ""

    return _FIELD.sub(lambda found: values.get(found[1], ""), _OPTIONAL.sub(part, template))
