"""What changed options would do to pending URLs, before they are set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from skitter.errors import BadURL
from skitter.frontier.feed import KEPT, ExcludedLink, newest_refusals
from skitter.frontier.records.metrics import read_table
from skitter.frontier.sites.hosts import LOOK_AT, Survey, survey_hosts
from skitter.frontier.sites.snapshots import host_facts, request_facts
from skitter.frontier.transport.shard import scan_names
from skitter.observe.report import duration
from skitter.patterns import first_match
from skitter.settings import Limits
from skitter.settings.widening import site_of, widening
from skitter.urls import identify

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.settings import JobOptions


#: Options that decide how long a host's queue takes.
DELAYS = ("delay_s", "latency_factor", "max_delay_s", "max_in_flight")


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What one changed option would do."""

    option: str
    was: float | int | str | bool | None
    becomes: float | int | str | bool | None
    urls: int  # affected
    says: str
    exact: bool = True  # else: counted in a sample


class _Count(NamedTuple):
    urls: int
    exact: bool = True


async def preview(frontier: Frontier, options: JobOptions) -> list[Effect]:
    """The effects of changed limits on pending URLs, and of delays on the time that they take."""
    old, new = frontier.options.limits, options.limits
    found = await _slower(frontier, options)
    for name, (count, says) in EFFECTS.items():
        was, limit = getattr(old, name), getattr(new, name)
        if limit != was:
            urls, exact = await count(frontier, limit)
            effect = Effect(option=name, was=was, becomes=limit, urls=urls, says=says, exact=exact)
            found.append(effect)
    return found


async def _slower(frontier: Frontier, options: JobOptions) -> list[Effect]:
    """The time that known URLs take at least, if a delay changes: that of the slowest host."""
    old, new = frontier.options.politeness, options.politeness
    if all(getattr(old, name) == getattr(new, name) for name in DELAYS):
        return []
    stats, answers = await frontier.stats(), await _answers(frontier)
    was = await survey_hosts(frontier, None, answers)
    becomes = await survey_hosts(frontier, options, answers)
    [name, *_] = [delay for delay in DELAYS if getattr(old, delay) != getattr(new, delay)]
    says = f"known URLs would take {_least(becomes)}; now, {_least(was)}"
    if name == "max_in_flight" and not answers:
        says += "; no page was fetched lately, so nobody knows how long hosts take to answer"
    return [
        Effect(
            option=name,
            was=getattr(old, name),
            becomes=getattr(new, name),
            urls=stats.remaining,
            says=says,
            exact=stats.hosts <= LOOK_AT,
        )
    ]


async def _answers(frontier: Frontier) -> dict[str, float]:
    """How long hosts took in the last hour. Of those that are not in the table: the mean."""
    rows = [row for row in await read_table(frontier, "host") if row.ok + row.failed]
    if not rows:
        return {}
    took = {row.name: row.ms / 1000 / (row.ok + row.failed) for row in rows}
    asked = sum(row.ok + row.failed for row in rows)
    return took | {"": sum(row.ms for row in rows) / 1000 / asked}


def _least(survey: Survey) -> str:
    bound = survey.bound
    if bound is None:
        return "no time that a delay decides"
    why = f", and {bound.why}" if bound.is_slowed else ""
    return f"at least {duration(bound.seconds)}, as {bound.host} has {bound.queued:,} of them{why}"


async def _over_pages(frontier: Frontier, limit: int | None) -> _Count:
    stats = await frontier.stats()
    return _Count(0 if limit is None else max(0, stats.remaining - max(0, limit - stats.done)))


async def _over_host_pages(frontier: Frontier, limit: int | None) -> _Count:
    async def count(shard: Shard, names: list[str]) -> int:
        over = 0.0
        for fact in await host_facts(shard, names):
            budget = fact.own.get("max_pages", limit)
            left = fact.queued if budget is None else max(0, budget - fact.pages - fact.in_flight)
            over += max(0, fact.queued - left)
        return int(over)

    return await _scan(frontier, "hosts", count)


async def _over_depth(frontier: Frontier, limit: int | None) -> _Count:
    async def count(shard: Shard, names: list[str]) -> int:
        facts = await request_facts(shard, [(name, "") for name in names])
        depths = [fact.request.depth for fact in facts if fact.request and not fact.dead]
        return sum(limit is not None and depth >= limit for depth in depths)

    return await _scan(frontier, "task", count)


async def _excluded(frontier: Frontier, patterns: str | None) -> _Count:
    return await _kept_out(frontier, Limits(exclude=patterns))


async def _not_included(frontier: Frontier, patterns: str | None) -> _Count:
    return await _kept_out(frontier, Limits(include=patterns))


async def _kept_out(frontier: Frontier, limits: Limits) -> _Count:
    async def count(shard: Shard, names: list[str]) -> int:
        facts = await request_facts(shard, [(name, "") for name in names])
        waiting = [fact.request for fact in facts if fact.request and (fact.queued or fact.delayed)]
        return sum(limits.excludes_request(request) is not None for request in waiting)

    return await _scan(frontier, "task", count)


async def _let_in_by_host(frontier: Frontier, hosts: str | None) -> _Count:
    also = widening(hosts, None)
    return await _let_in(frontier, lambda link: bool(also and also.has_site(_site(link.url))))


async def _let_in_by_pattern(frontier: Frontier, patterns: str | None) -> _Count:
    """Counts links on all hosts: only the spider knows which hosts are in scope."""
    return await _let_in(frontier, lambda link: first_match(patterns or "", link.url) is not None)


async def _let_in(frontier: Frontier, fits: Callable[[ExcludedLink], bool]) -> _Count:
    known = await newest_refusals(frontier)
    urls = sum(link.kind == "scope" and fits(link) for link in known)
    return _Count(urls, exact=len(known) < KEPT // 2)


def _site(url: str) -> str:
    try:
        return site_of(identify(url).host)
    except BadURL:
        return ""


async def _over_pending(frontier: Frontier, limit: int | None) -> _Count:
    stats = await frontier.stats()
    waiting = stats.pending - stats.shelved + stats.delayed
    return _Count(0 if limit is None else max(0, waiting - limit))


async def _scan(
    frontier: Frontier, key: str, count: Callable[[Shard, list[str]], Awaitable[int]]
) -> _Count:
    """The sum over the names in a key, up to about LOOK_AT of them."""
    urls = looked = 0
    for shard in frontier.shards:
        async for names in scan_names(shard, key):
            urls += await count(shard, names)
            looked += len(names)
            if looked >= LOOK_AT:
                return _Count(urls, exact=False)
    return _Count(urls)


EFFECTS: dict[str, tuple[Callable[[Frontier, Any], Awaitable[_Count]], str]] = {
    "max_pages": (_over_pages, "known URLs would not be fetched; they stay in the queue"),
    "max_pages_per_host": (
        _over_host_pages,
        "pending URLs would be shelved: their host's budget would be used up",
    ),
    "max_depth": (
        _over_depth,
        "pending URLs are at that depth or deeper: they are still fetched, but their links are not "
        "followed",
    ),
    "exclude": (
        _excluded,
        "pending URLs would not be fetched; they come back when the option changes again",
    ),
    "include": (
        _not_included,
        "pending URLs would not be fetched; they come back when the option changes again",
    ),
    "also_hosts": (
        _let_in_by_host,
        "links to these hosts were out of scope so far; they are followed when found again, if the "
        "spider's patterns allow it",
    ),
    "also_include": (
        _let_in_by_pattern,
        "matching links were out of scope so far; those on hosts in scope are followed when found "
        "again",
    ),
    "max_pending": (
        _over_pending,
        "pending URLs are over the limit; they stay, but pushes are refused until there is room",
    ),
}
