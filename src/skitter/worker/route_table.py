"""How routes did, per domain and in total, for `skitter proxy stats` and the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from skitter.fetch.bandit import Arm, Arms
from skitter.fetch.exits import MILLIONTHS
from skitter.frontier.routes import FleetRoutes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.frontier.connection import Server

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
    """A row per proxy, and one per domain and proxy; for one `domain`, only the latter."""
    fleet = FleetRoutes.on(server)
    known = await fleet.settle()
    totals = {} if domain else known.routes
    rows = [_row(ALL, name, counts) for name, counts in sorted(totals.items())]
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
