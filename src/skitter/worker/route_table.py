"""How routes did, per domain and in total, for `skitter proxy stats` and the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from skitter.fetch.bandit import Arm, Arms
from skitter.fetch.exits import MILLIONTHS
from skitter.frontier.routes import FleetRoutes

if TYPE_CHECKING:
    from skitter.frontier.connection import Server


async def route_table(server: Server, domain: str | None = None) -> list[dict[str, Any]]:
    """A row per route, and one per domain and route; for one `domain`, only the latter."""
    fleet = FleetRoutes.on(server)
    known = await fleet.settle()
    rows = [_total(name, counts) for name, counts in sorted(known.routes.items())]
    rows = [] if domain else rows
    for name in [domain] if domain else await fleet.domains():
        packed = (await fleet.settle(domain=name)).domains.get(name, b"")
        rows += [_row(name, route, arm) for route, arm in sorted(_arms(packed).items())]
    return rows


def _arms(packed: bytes) -> dict[str, Arm]:
    try:
        return msgspec.msgpack.decode(packed, type=Arms).arms
    except ValueError:  # anybody may have written it
        return {}


def _row(domain: str, route: str, arm: Arm) -> dict[str, Any]:
    counts = {"good": arm.good_total, "bans": arm.bans, "page faults": arm.faults}
    return {"domain": domain, "proxy": route, **counts, "proxy faults": 0} | _sums(
        arm.good_total, arm.bans, arm.bytes, arm.money
    )


def _total(route: str, counts: dict[str, float]) -> dict[str, Any]:
    good, bans, pages, faults = (
        int(counts.get(one, 0)) for one in ("good", "ban", "page", "fault")
    )
    row = {"domain": "(all)", "proxy": route, "good": good, "bans": bans}
    row |= {"page faults": pages, "proxy faults": faults}
    return row | _sums(good, bans + faults, counts.get("bytes", 0), counts.get("money", 0))


def _sums(good: int, bad: int, size: float, money: float) -> dict[str, Any]:
    spent = money / MILLIONTHS
    return {
        "success": f"{good / (good + bad):.0%}" if good + bad else "",
        "MB": round(size / 2**20, 1),
        "cost": round(spent, 4),
        "per 1,000 good": f"{1000 * spent / good:.4g}" if good else "",
    }
