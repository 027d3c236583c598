"""How proxies did, as rows for programs: `skitter proxy stats --json` and the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from skitter.worker.route_table import route_table

if TYPE_CHECKING:
    from skitter.frontier.connection import Server


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
    return [_row(one) for one in await route_table(server, domain)]


def _row(cells: dict[str, Any]) -> RouteRow:
    good, bans, faults = cells["good"], cells["bans"], cells["proxy faults"]
    tries, per_1000 = good + bans + faults, cells["per 1,000 good"]
    return RouteRow(
        domain=cells["domain"],
        proxy=cells["proxy"],
        good=good,
        bans=bans,
        page_faults=cells["page faults"],
        proxy_faults=faults,
        success=round(good / tries, 4) if tries else None,
        mb=cells["MB"],
        cost=cells["cost"],
        cost_per_1000_good=float(per_1000) if per_1000 else None,
    )
