"""How politely hosts were crawled, from the record of recent requests (lua/lib/trips.lua).

It holds requests to hosts with a delay, as reported by workers: when each left and how long it
took. A worker that vanished reported nothing: only the number of its requests is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from skitter.errors import BadURL
from skitter.frontier.delays import MAX_URL_CHARS
from skitter.frontier.sites.learned import stored_robots
from skitter.frontier.sites.snapshots import host_facts
from skitter.observe.report import some
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.sites.snapshots import HostFacts
    from skitter.frontier.transport.shard import Shard

#: Whether stored rules allow a URL; None: they cannot be read.
Allows = Callable[[bytes, str], bool | None]
#: Tolerance for clocks: times are known to within a few milliseconds, and with several requests
#: in flight one may leave 10 ms after its turn (docs/adr/0012).
SLACK_MS = 20
SLACK = 0.02
PAGE = 1000
MAX_NAMED = 20


class LoggedRequest(NamedTuple):
    """One request."""

    left_ms: int
    took_ms: int  # -1: its worker vanished
    delay_ms: int  # its host's delay at the time
    host: str
    url: str


@dataclass(slots=True, kw_only=True)
class HostPoliteness:
    """How politely one host was crawled."""

    host: str
    requests: int
    vanished: int  # further requests, at unknown times
    delay_s: float  # its smallest
    smallest_gap_s: float | None
    too_close: int  # gaps smaller than the delay
    most_in_flight: int
    max_in_flight: int
    disallowed: list[str] | None = field(default_factory=list)  # None: no robots.txt is stored

    @property
    def problems(self) -> list[str]:
        found = []
        if self.too_close:
            found.append(f"{some(self.too_close, 'request')} sent too soon after the previous one")
        if self.most_in_flight > self.max_in_flight:
            found.append(
                f"{self.most_in_flight} requests in flight, over the limit of {self.max_in_flight}"
            )
        if self.disallowed:
            found.append(f"robots.txt disallows {len(self.disallowed)} of the URLs")
        return found


async def audit_politeness(frontier: Frontier, *, allows: Allows) -> list[HostPoliteness]:
    """Every host in the record, busiest first."""
    options = await frontier.fresh_options()
    found = []
    for shard in frontier.shards:
        trips: dict[str, list[LoggedRequest]] = defaultdict(list)
        async for trip in _read(shard):
            trips[trip.host].append(trip)
        for facts in await host_facts(shard, list(trips)):
            limit = facts.own.get("max_in_flight", options.politeness.max_in_flight)
            seen = judge(facts, sorted(trips[facts.name]), max_in_flight=int(limit))
            seen.disallowed = await _disallowed(frontier, trips[facts.name], allows)
            found.append(seen)
    return sorted(found, key=lambda host: -host.requests)


def judge(facts: HostFacts, trips: list[LoggedRequest], *, max_in_flight: int) -> HostPoliteness:
    """Judge one host from its requests, in the order in which they left. Pure."""
    known = [trip for trip in trips if trip.took_ms >= 0]
    gaps = [(after.left_ms - before.left_ms, after) for before, after in pairwise(known)]
    return HostPoliteness(
        host=facts.name,
        requests=len(known),
        vanished=len(trips) - len(known),
        delay_s=min(trip.delay_ms for trip in trips) / 1000,
        smallest_gap_s=min(gap for gap, _ in gaps) / 1000 if gaps else None,
        too_close=sum(gap < _least(trip.delay_ms) for gap, trip in gaps),
        most_in_flight=most_at_once(known),
        max_in_flight=max_in_flight,
    )


def most_at_once(trips: Iterable[LoggedRequest]) -> int:
    """How many were in flight together, beyond the tolerance for clocks. Pure."""
    moments = [(trip.left_ms, 1) for trip in trips]
    moments += [(trip.left_ms + max(1, trip.took_ms - SLACK_MS), -1) for trip in trips]
    now = peak = 0
    for _, change in sorted(moments):  # at the same moment, those that end come first
        now += change
        peak = max(peak, now)
    return peak


def _least(delay_ms: int) -> float:
    return delay_ms - max(SLACK_MS, SLACK * delay_ms)


async def _read(shard: Shard) -> AsyncIterator[LoggedRequest]:
    first = 0
    while rows := await shard.command("LRANGE", "trips", first, first + PAGE - 1):
        for row in rows:
            if trip := open_trip(row.decode("utf-8", "replace")):
                yield trip
        first += PAGE


def open_trip(row: str) -> LoggedRequest | None:
    """None: it cannot be read."""
    try:
        now_ms, host, at_ms, ago_ms, took_ms, delay_ms, url = row.split(" ", 6)
        left_ms = min(int(at_ms), int(now_ms) - int(ago_ms))  # both are late, if anything
        return LoggedRequest(left_ms, int(took_ms), int(delay_ms), host, url)
    except ValueError:
        return None


async def _disallowed(
    frontier: Frontier, trips: list[LoggedRequest], allows: Allows
) -> list[str] | None:
    """URLs that were fetched although the robots.txt stored now disallows them."""
    rules: dict[str, bytes] = {}
    found, is_known = [], False
    for host, url in _pages(trips):
        if host not in rules:
            rules[host] = await stored_robots(frontier, host)
        said = allows(rules[host], url) if rules[host] else None
        is_known |= said is not None
        if said is False:
            found.append(url)
    return found[:MAX_NAMED] if is_known else None


def _pages(trips: list[LoggedRequest]) -> Iterator[tuple[str, str]]:
    """Host and URL, without robots.txt itself and without cut URLs, which may mean another page."""
    for trip in trips:
        if len(trip.url) < MAX_URL_CHARS:
            with suppress(BadURL):
                yield identify(trip.url).host, trip.url
