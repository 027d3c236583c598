"""The result of a simulated crawl."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from benchmarks.simulate.web import PAGES_A_PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.simulate.crawl import Crawl
    from skitter.model import Stats

FAST_S = 0.4  # hosts that answer this quickly all have the same delay


class Outcome(msgspec.Struct, kw_only=True):
    """For the whole crawl, or its second half where stated."""

    pages: int
    failed: int  # attempts
    urls_seen: int
    urls_pending: int
    dead: int
    hosts_met: int
    virtual_s: float
    pages_per_s: float  # virtual, second half
    bound_by_slots: float  # share of the time; the rest is limited by hosts
    in_flight: int  # at the end
    bytes_total: int
    bytes_per_url: float  # of those seen, most of them pending
    server_us_per_page: float  # CPU: lease, complete with the links, retries
    server_pages_per_s: float  # what one core could handle
    client_us_per_page: float  # of this simulation, not of a worker
    hosts_compared: int  # of the same speed, with work throughout the second half
    fairness: float  # Jain's index of their pages: 1 is equal shares
    turns_median_s: float  # the longest wait of such a host for its turn
    turns_longest_s: float
    real_s: float


class Costs(msgspec.Struct, kw_only=True):
    """What it cost the machine."""

    bytes_total: int
    server_us: float
    client_us: float
    real_s: float


def outcome_of(crawl: Crawl, stats: Stats, costs: Costs) -> Outcome:
    pages = max(1, crawl.done)
    turns = [crawl.turns[host] for host in _comparable(crawl)]
    waits = [one.longest_ms / 1000 for one in turns]
    bound = crawl.bounds
    return Outcome(
        pages=crawl.done,
        failed=crawl.failed,
        urls_seen=stats.seen,
        urls_pending=stats.pending,
        dead=stats.dead,
        hosts_met=stats.hosts,
        virtual_s=(crawl.clock.now_ms - crawl.marks[0][0]) / 1000,
        pages_per_s=_rate(crawl),
        bound_by_slots=bound["slots"] / max(1, bound.total()),
        in_flight=len(crawl.in_flight),
        bytes_total=costs.bytes_total,
        bytes_per_url=costs.bytes_total / max(1, stats.seen),
        server_us_per_page=costs.server_us / pages,
        server_pages_per_s=1e6 * pages / max(1.0, costs.server_us),
        client_us_per_page=costs.client_us / pages,
        hosts_compared=len(turns),
        fairness=jain([one.pages for one in turns]),
        turns_median_s=median(waits) if waits else 0.0,
        turns_longest_s=max(waits, default=0.0),
        real_s=costs.real_s,
    )


def jain(shares: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 if all have the same, 1/n if one has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def _rate(crawl: Crawl) -> float:
    """Pages per second in the second half, when enough hosts are known."""
    (from_ms, before), (to_ms, after) = crawl.marks[len(crawl.marks) // 2], crawl.marks[-1]
    return 1000 * (after - before) / max(1, to_ms - from_ms)


def _comparable(crawl: Crawl) -> list[int]:
    """Fast hosts that were asked in the second half and still have unvisited links."""
    web = crawl.plan.web
    return [
        host
        for host, served in crawl.served.items()
        if host in crawl.turns
        and served > crawl.turns[host].pages + 1  # known before the second half
        and web.latency_s(host) <= FAST_S
        and min(web.size(host), served * PAGES_A_PAGE) > 2 * served
    ]
