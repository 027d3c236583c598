"""Proxies: test, stats, bench, forget."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

import msgspec

from skitter.cli.common import SERVER, Json, Where, on_server
from skitter.cli.parameters import Argument, Exit, Group, Option
from skitter.cli.show.output import emit_json, grid, print_progress, say
from skitter.engine.departures import TooEarly
from skitter.engine.proxies.routed import RoutedFetcher, open_routes
from skitter.engine.proxies.table import RouteRow, Tried, recommend, route_rows, try_route
from skitter.errors import FetchError, UsageError, shorten
from skitter.fetch.http.fetcher import HttpFetcher
from skitter.fetch.http.guard import Guard
from skitter.frontier.records.operators import NewAction
from skitter.frontier.sites.sessions import FleetRoutes
from skitter.frontier.transport.connection import Server
from skitter.model import Request
from skitter.settings import Route, WorkerConfig, resolve
from skitter.urls import identify

Names = Annotated[list[str] | None, Argument(metavar="[PROXY...]", help="By name. Default: all.")]
#: Names for our address in the JSON of services that report it.
ADDRESS, COUNTRY = ("ip", "query", "origin", "address"), ("country", "country_code", "countryCode")
#: Columns of people's tables.
BRIEF = (
    "domain",
    "proxy",
    "good",
    "bans",
    "faults",
    "ok",
    "seconds",
    "cost",
    "per 1,000",
    "problem",
)
group = Group(help="Test proxies, and see what they deliver and cost.")


@group.add("test")
def try_proxies(names: Names = None, where: Where = SERVER, as_json: Json = False) -> None:
    """Show the address that a site sees through each proxy. A service is asked: routes.test_url."""
    config, routes = _configured(names)
    url = config.routes.test_url

    async def work(server: Server) -> list[dict[str, Any]]:
        async with _fetcher(server, config, [url]) as fetcher:
            return [await _test(fetcher, route, url) for route in routes]

    rows = on_server(where, work)
    _show(rows, as_json)
    if any(row["problem"] for row in rows):
        raise Exit(1)


@group.add("stats")
def stats(
    domain: Annotated[str | None, Option("--domain", help="Only this domain.")] = None,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Show what each proxy delivered per domain, and at what cost."""
    rows = on_server(where, lambda server: route_rows(server, domain))
    show_stats(rows, domain=domain, as_json=as_json)


def show_stats(rows: list[RouteRow], *, domain: str | None = None, as_json: bool = False) -> None:
    if as_json:
        emit_json(rows)
    elif not rows:
        say(f"No page{f' of {domain}' if domain else ''} has come through a proxy yet.")
    else:
        _show([_brief(msgspec.structs.asdict(row)) for row in rows], as_json)


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    """Fewer columns, to fit into 80 characters."""
    success, per_1000 = row["success"], row["cost_per_1000_good"]
    brief = row | {
        "faults": row["page_faults"] + row["proxy_faults"],
        "ok": "" if success is None else f"{success:.0%}",
        "per 1,000": "" if per_1000 is None else f"{per_1000:.4g}",
    }
    return {name: brief[name] for name in BRIEF if name in brief}


@group.add("bench")
def bench(
    urls: Annotated[list[str], Argument(metavar="URL...", help="Pages to fetch.")],
    times: Annotated[int, Option(min=1, max=100, help="How often to fetch each.")] = 3,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Fetch the same pages through every proxy, and recommend one. You pay for the requests."""
    config, routes = _configured(None)
    pages = [identify(url).url for url in urls] * times

    async def work(server: Server) -> list[Tried]:
        async with _fetcher(server, config, pages) as fetcher:
            return [await try_route(fetcher, route.name, pages) for route in routes]

    tried = on_server(where, work)
    best = recommend(tried, config.routes)
    rows = [_tried(trial) for trial in tried]
    if as_json:
        emit_json({"routes": rows, "recommended": best or None})
    else:
        _show([_brief(row) for row in rows], as_json)
        say(f"recommended: {best}" if best else "no proxy delivered a page.")
    if not best:
        raise Exit(1)


@group.add("forget")
def forget(names: Names = None, where: Where = SERVER) -> None:
    """Forget what proxies have spent. Their budgets start over; without a name, everything learned
    about them is forgotten, too."""

    async def work(server: Server) -> None:
        if names:
            _check_known(names, {row.proxy for row in await route_rows(server)})
        await FleetRoutes.on(server).forget(names or ())

    action = NewAction("", "proxy forget", " ".join(names or ["all"]))
    on_server(where, work, action=action)
    say(f"forgot what {', '.join(names)} spent." if names else "forgot all proxies.")


def _check_known(names: list[str], used: Iterable[str]) -> None:
    """A configured proxy may be forgotten before it was used: its budget is whole."""
    known = sorted({*used, *(proxy.name for proxy in resolve().proxies)})
    for name in names:
        if name not in known:
            listed = f"known are {', '.join(known)}." if known else "no proxy was used yet."
            raise UsageError(f"nothing is known about a proxy {shorten(name)!r}: {listed}")


def _configured(names: list[str] | None) -> tuple[WorkerConfig, list[Route]]:
    found = resolve()
    config = WorkerConfig(proxies=found.proxies, routes=found.routes, fetch=found.fetch)
    ours = [proxy for proxy in found.proxies if proxy.is_for(found.routes.region)]
    if not ours:
        raise UsageError("no proxy is configured: add a [[proxy]] to skitter.toml.")
    if unknown := set(names or ()) - {route.name for route in ours}:
        raise UsageError(f"there is no proxy {sorted(unknown)[0]!r} in skitter.toml.")
    return config, [route for route in ours if not names or route.name in names]


@asynccontextmanager
async def _fetcher(
    server: Server, config: WorkerConfig, urls: list[str]
) -> AsyncIterator[RoutedFetcher]:
    """URLs that the operator names may be private."""
    guard = Guard.for_seeds(urls, also=config.fetch.allow_hosts)
    async with (
        HttpFetcher(config.fetch, guard=guard) as inner,
        open_routes(server, config, lambda _, text: print_progress(text)) as (routes, api),
    ):
        yield RoutedFetcher(inner, routes, guard, api)


async def _test(fetcher: RoutedFetcher, route: Route, url: str) -> dict[str, Any]:
    row: dict[str, Any] = {"proxy": route.name, "address": "", "country": "", "seconds": 0.0}
    row |= {"price": _price(route), "problem": ""}
    routes = fetcher.routes
    only = replace(fetcher, routes=replace(routes, exits={route.name: routes.exits[route.name]}))
    try:
        response = await only.fetch(Request(url=url))
    except TooEarly:
        return row | {"problem": "it is paused, or its budget is spent"}
    except FetchError as error:
        return row | {"problem": error.reason}
    row["seconds"] = round(response.elapsed_s, 3)
    if response.status != 200:
        return row | {"problem": f"{url} answered {response.status}"}
    said = _said(response.body)
    return row | {"address": _first(said, ADDRESS), "country": _first(said, COUNTRY)}


def _said(body: bytes) -> dict[str, Any]:
    """The JSON object, or else the body as an address."""
    try:
        said = msgspec.json.decode(body)
    except ValueError:
        return {"ip": body[:60].decode("ascii", "replace").strip()}
    return said if isinstance(said, dict) else {}


def _first(said: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((str(said[name])[:60] for name in names if name in said), "")


def _price(route: Route) -> str:
    prices = ((route.price_per_request, "a request"), (route.price_per_gb, "a GB"))
    return " + ".join(f"{price:g} {unit}" for price, unit in prices if price) or "free"


def _tried(tried: Tried) -> dict[str, Any]:
    per_1000 = tried.per_thousand
    return {
        "proxy": tried.route,
        "good": tried.good,
        "bans": tried.verdicts.get("ban", 0),
        "page_faults": tried.verdicts.get("page", 0),
        "proxy_faults": tried.verdicts.get("fault", 0),
        "success": round(tried.success, 4),
        "seconds": round(tried.median_s, 3),
        "cost_per_1000_good": None if per_1000 is None else round(per_1000, 4),
        "problem": tried.problem,
    }


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        emit_json(rows)
    else:
        grid(list(rows[0]), [list(row.values()) for row in rows])
