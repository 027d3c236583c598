"""Routes: how requests leave. `[[proxy]]` in skitter.toml, one table each.

    [[proxy]]
    name = "bright"
    preset = "brightdata"
    user = "hl_1234-zone-shops"
    secret = "env:BRIGHT_PASSWORD"
    price_per_gb = 8.4
    budget = 20.0

A template is the user name of a gateway, or the query string of an API. `{user}`, `{secret}`,
`{url}`, `{country}` (`{COUNTRY}`: in capitals), `{session}`, `{number}` (the session as a number)
and `{headers}` (`true` if the request has any) are filled in; a part in brackets is left out if its
value is unknown.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from skitter.errors import BadOption, UsageError
from skitter.redact import redact
from skitter.settings.option import Table, option, options_of

Kind = Literal["direct", "gateway", "api"]

#: As documented by the providers. Prices depend on the plan: operators fill them in.
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "thordata": {
        "url": "http://t.pr.thordata.net:9999",
        "template": "td-customer-{user}[-country-{country}][-sessid-{session}]",
    },
    "brightdata": {  # user: ID-zone-ZONE
        "url": "http://brd.superproxy.io:33335",
        "template": "brd-customer-{user}[-country-{country}][-session-{session}]",
    },
    "oxylabs": {
        "url": "http://pr.oxylabs.io:7777",
        "template": "customer-{user}[-cc-{COUNTRY}][-sessid-{session}]",
    },
    "scraperapi": {
        "kind": "api",
        "url": "https://api.scraperapi.com/",
        "template": "api_key={secret}&url={url}&follow_redirect=false"
        "[&country_code={country}][&session_number={number}]"
        "[&keep_headers={headers}]",
        "billed": "good",
        "timeout_s": 90.0,  # it retries for 70 s
    },
    "scrapeops": {
        "kind": "api",
        "url": "https://proxy.scrapeops.io/v1/",
        "template": "api_key={secret}&url={url}&follow_redirects=false"
        "[&country={country}][&session_number={number}]"
        "[&keep_headers={headers}]",
        "billed": "good",
        "timeout_s": 150.0,  # it retries for 2 minutes
    },
}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_COUNTRY: Final = re.compile(r"[a-z]{2}")
_SCHEMES: Final = {"gateway": ("http", "https", "socks5"), "api": ("http", "https")}


def _limit(help: str, high: float) -> Any:
    return option(None, help, low=0, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Table):
    """A route. Requests leave directly, through a gateway (a proxy), or by an API that fetches the
    page for us."""

    name: str = option("", "Its name: lower case letters, digits, '-' and '_'.")
    kind: Kind = option("gateway", "How requests leave.")
    preset: Literal["", "thordata", "brightdata", "oxylabs", "scraperapi", "scrapeops"] = option(
        "", "A known provider: sets url, template and kind."
    )
    url: str = option("", "URL of the gateway or API, without credentials.")
    user: str = option("", "The account.")
    secret: str = option("", "Where the password or API key is: env:NAME or file:PATH.")
    template: str = option("", "The gateway's user name, or the API's query.")
    countries: tuple[str, ...] = option(
        (), "Countries it can leave from, such as de. Empty: any that the template takes."
    )
    regions: tuple[str, ...] = option(
        (), "Workers of these regions use it (`--region`). Empty: all workers do."
    )
    price_per_request: float = option(0.0, "Price of a request, in your currency.", low=0, high=1e6)
    price_per_gb: float = option(0.0, "Price of a gigabyte.", low=0, high=1e6)
    billed: Literal["all", "good"] = option(
        "all", "Which requests cost: all, or those answered with 200 or 404."
    )
    max_in_flight: int | None = _limit("Maximum concurrent requests of the whole fleet.", 10**6)
    max_per_s: float | None = _limit("Maximum requests per second of the whole fleet.", 1e6)
    budget: float | None = _limit("Money that the whole fleet may spend.", 1e9)
    budget_requests: int | None = _limit("Requests that the whole fleet may send.", 2**40)
    budget_mb: float | None = _limit("Megabytes that the whole fleet may receive.", 2**40)
    timeout_s: float | None = option(
        None, "Seconds for a whole request; none: as in [fetch].", low=0.001, high=86_400
    )

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            value = getattr(self, one.name)
            if value != "":
                one.check(value)
        if not _NAME.fullmatch(self.name):
            raise BadOption("name", self.name, "lower case letters, digits, '-' and '_'")
        for code in self.countries:
            check_country(code)
        if self.kind == "direct":
            return
        _check_url(self.url, self.kind)
        if self.secret and not self.secret.startswith(("env:", "file:")):
            raise BadOption("secret", "(hidden)", "env:NAME or file:PATH, not the secret itself")
        if self.kind == "api" and "{url}" not in self.template:
            raise BadOption("template", self.template, "a query with {url} in it")

    @property
    def takes_country(self) -> bool:
        return "{country}" in self.template.lower()

    @property
    def is_limited(self) -> bool:
        """Whether a request needs the fleet's permission to leave."""
        limits = (self.max_in_flight, self.max_per_s)
        return self.has_budget or any(limit is not None for limit in limits)

    @property
    def has_budget(self) -> bool:
        budgets = (self.budget, self.budget_requests, self.budget_mb)
        return any(budget is not None for budget in budgets)

    def is_for(self, region: str | None) -> bool:
        """Whether a worker in that region uses it."""
        return not region or not self.regions or region in self.regions

    def leaves_from(self, country: str) -> bool:
        """Empty: any country."""
        if not country or country in self.countries:
            return True
        return self.takes_country and not self.countries

    def read_secret(self) -> str:
        """Read it from the environment or a file. Raises UsageError, which does not show it."""
        where, _, name = self.secret.partition(":")
        try:
            found = os.environ.get(name) if where == "env" else _read(name)
        except OSError as error:
            raise UsageError(
                f"cannot read {name}, the secret of proxy {self.name}: {error.strerror}."
            ) from None
        if found is None:
            raise UsageError(f"set {name}: the secret of proxy {self.name} is expected there.")
        return found


def _check_url(url: str, kind: Kind) -> None:
    """Raises BadOption, which shows no credentials."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        expected = "without credentials, which go into `user` and `secret`"
        raise BadOption("url", redact(url), expected)
    if parts.scheme not in _SCHEMES[kind] or not parts.hostname:
        expected = " or ".join(f"{scheme}://host:port" for scheme in _SCHEMES[kind])
        raise BadOption("url", url, expected)


def _read(path: str) -> str:
    return Path(path).expanduser().read_text(encoding="utf-8").strip() if path else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOptions(Table):
    """How one of several routes is chosen."""

    region: str | None = option(
        None, "The region of this worker: it uses the proxies of that region.", flag="--region"
    )
    success_rate: float = option(
        0.7, "Take the cheapest route with this share of good pages.", low=0, high=1
    )
    page_value: float | None = option(
        None, "What a good page is worth, in the currency of the prices; replaces success_rate.",
        low=0, high=1e6,
    )  # fmt: skip
    price_per_s: float = option(
        0.0001, "What a second of waiting costs, so that the faster of two equal routes wins.",
        low=0, high=1e6,
    )  # fmt: skip
    test_url: str = option(
        "https://ipinfo.io/json", "A service that replies with your address, for `proxy test`."
    )


def make_route(values: dict[str, Any]) -> Route:
    """Make a route from the fields of a table, on top of its preset. Raises BadOption."""
    given = {name: value for name, value in values.items() if value != ""}
    return Route(**{**PRESETS.get(str(given.get("preset", "")), {}), **given})


def check_country(code: str) -> str:
    """An ISO 3166-1 code of two letters, such as `de`."""
    if not _COUNTRY.fullmatch(code):
        raise BadOption("country", code, "two lower case letters, such as de")
    return code
