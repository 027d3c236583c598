"""The hosts of a job: their delays, clocks they share, and when the slowest will be done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from heapq import nlargest
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from skitter.frontier.sites.snapshots import HostFacts, host_facts, ticket_of
from skitter.frontier.transport.messages import ms
from skitter.frontier.transport.scripts import script
from skitter.frontier.transport.shard import scan_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.settings import JobOptions


#: A place is freed after this long, even if its request never gives it back.
HELD_S: Final = 60.0
#: Above this limit, requests in flight are not counted.
MAX_PLACES: Final = 1000
#: Default arguments: no moment, no rest, no place.
NOTHING: Final[dict[str, object]] = {
    "moment_ms": 0, "delay_ms": 0, "max_wait_ms": -1, "for_ms": 0,
    "place": "", "limit": -1, "held_ms": ms(HELD_S),
}  # fmt: skip


class Turn(NamedTuple):
    """When to leave. A moment of 0: the wait is too long, and nothing is reserved."""

    wait_s: float
    moment_ms: int


class InFlightPlace(NamedTuple):
    """The place of a request among those in flight on a shared clock."""

    name: str
    limit: int  # how many may be in flight


async def take_turn(
    frontier: Frontier, clock: str, place: InFlightPlace | None = None, **wanted: float
) -> Turn:
    """Ask a clock for a moment, and for a place among those in flight.

    A clock is shared by several hosts or jobs: it belongs to no job, and expires when unused.
    `delay_s`: after the last moment granted; `max_wait_s`: not longer; `moment_ms`: an earlier
    grant, if still unused.
    """
    name, limit = place or ("", -1)
    return await _call(
        frontier,
        clock,
        moment_ms=int(wanted.get("moment_ms", 0)),
        delay_ms=ms(wanted["delay_s"]),
        max_wait_ms=ms(wanted["max_wait_s"]),
        place=name,
        limit=limit if limit <= MAX_PLACES else -1,
    )


async def give_back(frontier: Frontier, clock: str, place: InFlightPlace) -> None:
    """Free the place of a finished request."""
    await _call(frontier, clock, place=place.name, limit=0)


async def begin_rest(frontier: Frontier, clock: str, *, for_s: float) -> None:
    """Grant no moment for `for_s`."""
    await _call(frontier, clock, for_ms=ms(for_s))


async def _call(frontier: Frontier, clock: str, **given: int | str) -> Turn:
    shard, code = frontier.home, script("turn")
    values = NOTHING | given | {"now": shard.clock() if shard.clock else ""}
    arguments = code.arguments(values, ())
    key = shard.keys.key("clock", clock)
    wait_ms, moment_ms = await shard.server.call(code, [key], arguments)
    return Turn(wait_ms / 1000, moment_ms)


#: A host with a delay this long explains a rate of zero between two of its pages.
EXPLAINS_S = 2.0
NO_ANSWERS: Final[Mapping[str, float]] = MappingProxyType({})
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


#: How long each host takes for a page, in seconds; "": the rest.
Answers = Mapping[str, float]


async def survey_hosts(
    frontier: Frontier, options: JobOptions | None = None, answers: Answers = NO_ANSWERS
) -> Survey:
    """The host whose queue takes longest at its delay, and the request that has waited longest.

    Each host has its own pace, so the slowest one decides when a crawl will be done. `options`: as
    if the job had these. `answers`: what also bounds it, as so many requests are in flight.
    """
    options = options or frontier.options
    found = [await _survey_shard(frontier, shard, options, answers) for shard in frontier.shards]
    bounds = [survey.bound for survey in found if survey.bound and survey.bound.seconds > 0]
    oldest = [survey.oldest_at for survey in found if survey.oldest_at is not None]
    slowest = max(bounds, key=lambda bound: bound.seconds, default=None)
    return Survey(slowest, min(oldest, default=None))


async def _survey_shard(
    frontier: Frontier, shard: Shard, options: JobOptions, answers: Answers
) -> Survey:
    lifo = frontier.layout.order == "lifo"
    slowest: Bound | None = None
    first, looked = math.inf, 0
    async for names in scan_names(shard, "hosts"):
        for facts in await host_facts(shard, names):
            bound = bound_of(facts, options, answers)
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


def bound_of(facts: HostFacts, options: JobOptions, answers: Answers = NO_ANSWERS) -> Bound:
    """How long one host needs for its queue, if only its delay and its answers limit it."""
    delay = facts.delay(options)
    at_once = facts.own.get("max_in_flight", options.politeness.max_in_flight)
    answer_s = answers.get(facts.name, answers.get("", 0.0))
    if (each_s := answer_s / at_once) > delay.seconds:
        why = f"it takes {answer_s:.1f} s to answer"
        return Bound(facts.name, facts.queued, each_s, facts.queued * each_s, why)
    return Bound(facts.name, facts.queued, delay.seconds, facts.queued * delay.seconds, delay.why)


def eta_s(remaining: int, rate: float, bound: Bound | None) -> float | None:
    """Seconds to go: by the rate, or by the slowest host if that takes longer. None: the crawl has
    stopped, and no long delay explains it."""
    if rate > 0:
        return max(remaining / rate, bound.seconds if bound else 0.0)
    return bound.seconds if bound and bound.delay_s >= EXPLAINS_S else None


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
    return await top_hosts(frontier, limit, lambda host: (host.delay(options).seconds, host.queued))


async def top_hosts(
    frontier: Frontier, limit: int, rank: Callable[[HostFacts], tuple[float, ...]]
) -> list[HostFacts]:
    """The hosts with the highest rank among the first LOOK_AT."""
    found = await find_hosts(frontier, lambda _: True, limit=LOOK_AT)
    return nlargest(limit, found, key=lambda host: (*rank(host), host.name))


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
                found |= {host.name: host for host in await host_facts(shard, wanted)}
            if len(found) - before >= limit:
                break
    return list(found.values())
