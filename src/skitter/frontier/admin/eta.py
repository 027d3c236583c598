"""When it will be over: a host is asked at its own pace, so the slowest one decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skitter.frontier.facts import HostFacts, host_facts
from skitter.frontier.scan import scan_names

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.settings import JobOptions

#: Between two pages of a host that wants such a delay, the rate may well be nothing.
EXPLAINS_S = 2.0
LOOK_AT = 5000  # hosts: more would take longer than anybody waits for an estimate


@dataclass(frozen=True, slots=True)
class Bound:
    """The host that will be the last."""

    host: str
    queued: int
    delay_s: float
    seconds: float
    why: str = "configured"  # its delay is what it is

    @property
    def is_slowed(self) -> bool:
        return self.why != "configured"


async def slowest_host(frontier: Frontier) -> Bound | None:
    """The host whose queue takes longest at its delay; None if no delay matters."""
    slowest: Bound | None = None
    looked = 0
    for shard in frontier.shards:
        async for names in scan_names(shard, "hosts"):
            for facts in await host_facts(shard, names):
                bound = bound_of(facts, frontier.options)
                if slowest is None or bound.seconds > slowest.seconds:
                    slowest = bound
            looked += len(names)
            if looked >= LOOK_AT:
                break
    return slowest if slowest and slowest.seconds > 0 else None


def bound_of(facts: HostFacts, options: JobOptions) -> Bound:
    """How long one host needs for what is queued, if nothing but its delay holds it back."""
    delay = facts.delay(options)
    return Bound(facts.name, facts.queued, delay.seconds, facts.queued * delay.seconds, delay.why)


def eta_s(remaining: int, rate: float, bound: Bound | None) -> float | None:
    """Seconds to go: what the rate says, or the slowest host if that takes longer. None: it stands
    still, and not because a host wants a long delay."""
    if rate > 0:
        return max(remaining / rate, bound.seconds if bound else 0.0)
    return bound.seconds if bound and bound.delay_s >= EXPLAINS_S else None
