"""When a crawl will be done: each host has its own pace, so the slowest one decides."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from skitter.frontier.facts import HostFacts, host_facts, ticket_of
from skitter.frontier.scan import scan_names

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard
    from skitter.settings import JobOptions

#: A host with a delay this long explains a rate of zero between two of its pages.
EXPLAINS_S = 2.0
LOOK_AT = 5000  # hosts: more would take too long for an estimate


class Bound(msgspec.Struct, frozen=True):
    """The host that will finish last."""

    host: str
    queued: int
    delay_s: float
    seconds: float
    why: str = "configured"  # the reason for its delay

    @property
    def is_slowed(self) -> bool:
        return self.why != "configured"


class Survey(NamedTuple):
    """Findings over all hosts of a job."""

    bound: Bound | None = None  # None: no delay matters
    #: The earliest arrival among the requests at the head of their host's queue; None: nothing is
    #: queued, or it is unknown.
    oldest_at: float | None = None


async def survey_hosts(frontier: Frontier, options: JobOptions | None = None) -> Survey:
    """The host whose queue takes longest at its delay, and the request that has waited longest.
    `options`: as if the job had these."""
    options = options or frontier.options
    found = [await _survey_shard(frontier, shard, options) for shard in frontier.shards]
    bounds = [one.bound for one in found if one.bound and one.bound.seconds > 0]
    oldest = [one.oldest_at for one in found if one.oldest_at is not None]
    slowest = max(bounds, key=lambda one: one.seconds, default=None)
    return Survey(slowest, min(oldest, default=None))


async def _survey_shard(frontier: Frontier, shard: Shard, options: JobOptions) -> Survey:
    lifo = frontier.layout.order == "lifo"
    slowest: Bound | None = None
    first, looked = math.inf, 0
    async for names in scan_names(shard, "hosts"):
        for facts in await host_facts(shard, names):
            bound = bound_of(facts, options)
            if slowest is None or bound.seconds > slowest.seconds:
                slowest = bound
            if facts.head is not None:
                first = min(first, ticket_of(facts.head, lifo=lifo))
        looked += len(names)
        if looked >= LOOK_AT:
            break
    return Survey(slowest, await _arrival_of(shard, first) if first < math.inf else None)


async def _arrival_of(shard: Shard, ticket: float) -> float | None:
    """Seconds since the epoch; a little early, as arrival times are only sampled."""
    how = ("BYSCORE", "REV", "LIMIT", 0, 1)
    marks = await shard.command("ZRANGE", "marks", f"({ticket:.0f}", "-inf", *how)
    return int(marks[0]) / 1000 if marks and marks[0].isdigit() else None


def bound_of(facts: HostFacts, options: JobOptions) -> Bound:
    """How long one host needs for its queue, if only its delay limits it."""
    delay = facts.delay(options)
    return Bound(facts.name, facts.queued, delay.seconds, facts.queued * delay.seconds, delay.why)


def eta_s(remaining: int, rate: float, bound: Bound | None) -> float | None:
    """Seconds to go: by the rate, or by the slowest host if that takes longer. None: the crawl has
    stopped, and no long delay explains it."""
    if rate > 0:
        return max(remaining / rate, bound.seconds if bound else 0.0)
    return bound.seconds if bound and bound.delay_s >= EXPLAINS_S else None
