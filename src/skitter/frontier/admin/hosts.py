"""The hosts of a job that are asked least often."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING

from skitter.frontier.admin.eta import LOOK_AT
from skitter.frontier.facts import HostFacts, host_facts
from skitter.frontier.scan import scan_names

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


async def slowest_hosts(frontier: Frontier, most: int) -> list[HostFacts]:
    """Those with the longest delay first, then those with most to do; of the first thousands."""
    options, found = await frontier.fresh_options(), dict[str, HostFacts]()
    for shard in frontier.shards:
        async for names in scan_names(shard, "hosts"):
            found |= {one.name: one for one in await host_facts(shard, names)}
            if len(found) >= LOOK_AT:
                break
    return nlargest(
        most, found.values(), key=lambda one: (one.delay(options).seconds, one.queued, one.name)
    )
