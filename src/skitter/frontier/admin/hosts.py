"""The hosts of a job: their delays, and the reasons for them."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING

import msgspec

from skitter.frontier.admin.eta import LOOK_AT
from skitter.frontier.facts import HostFacts, host_facts
from skitter.frontier.scan import scan_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.frontier.frontier import Frontier
    from skitter.settings import JobOptions


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """One host, as `skitter hosts --json` and the HTTP API show it."""

    host: str
    pending: int
    in_flight: int
    pages: int
    delay_s: float
    because: str  # the reason for the delay
    opens_at: float  # no request goes to it before then


def host_row(facts: HostFacts, options: JobOptions) -> HostRow:
    delay = facts.delay(options)
    return HostRow(
        host=facts.name,
        pending=facts.queued,
        in_flight=facts.in_flight,
        pages=facts.pages,
        delay_s=delay.seconds,
        because=delay.why,
        opens_at=facts.opens_at(options),
    )


async def slowest_hosts(frontier: Frontier, limit: int) -> list[HostFacts]:
    """By delay, then by queue length, longest first; looks at the first LOOK_AT hosts only."""
    options = await frontier.fresh_options()
    return await top_hosts(frontier, limit, lambda one: (one.delay(options).seconds, one.queued))


async def top_hosts(
    frontier: Frontier, limit: int, rank: Callable[[HostFacts], tuple[float, ...]]
) -> list[HostFacts]:
    """The hosts with the highest rank among the first LOOK_AT."""
    found = await find_hosts(frontier, lambda _: True, limit=LOOK_AT)
    return nlargest(limit, found, key=lambda one: (*rank(one), one.name))


async def find_hosts(
    frontier: Frontier, fits: Callable[[str], bool], *, limit: int
) -> list[HostFacts]:
    """The hosts whose name fits, up to about `limit` of each shard."""
    found = dict[str, HostFacts]()
    for shard in frontier.shards:
        before = len(found)
        async for names in scan_names(shard, "hosts"):
            wanted = [name for name in names if fits(name)]
            if wanted:
                found |= {one.name: one for one in await host_facts(shard, wanted)}
            if len(found) - before >= limit:
                break
    return list(found.values())
