"""The hosts of a job: how often they are asked, and why not more often."""

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
    because: str  # why the delay is what it is
    opens_at: float  # before that it is not asked again


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


async def slowest_hosts(frontier: Frontier, most: int) -> list[HostFacts]:
    """Those with the longest delay first, then those with most to do; of the first thousands."""
    options = await frontier.fresh_options()
    return await top_hosts(frontier, most, lambda one: (one.delay(options).seconds, one.queued))


async def top_hosts(
    frontier: Frontier, most: int, rank: Callable[[HostFacts], tuple[float, ...]]
) -> list[HostFacts]:
    """Those with the highest rank, of the first thousands."""
    found = dict[str, HostFacts]()
    for shard in frontier.shards:
        async for names in scan_names(shard, "hosts"):
            found |= {one.name: one for one in await host_facts(shard, names)}
            if len(found) >= LOOK_AT:
                break
    return nlargest(most, found.values(), key=lambda one: (*rank(one), one.name))
