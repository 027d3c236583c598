"""What other options would do to the URLs that wait, before anybody sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from skitter.frontier.admin.eta import LOOK_AT
from skitter.frontier.facts import host_facts, request_facts
from skitter.frontier.scan import scan_names

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.settings import JobOptions


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Of one option that would be another."""

    option: str
    was: float | int | str | bool | None
    becomes: float | int | str | bool | None
    urls: int  # that are affected
    says: str
    exact: bool = True  # else: of the first thousands that were looked at


async def preview(frontier: Frontier, options: JobOptions) -> list[Effect]:
    """The effects of options that limit a crawl; others affect no URL that waits."""
    old, new = frontier.options.limits, options.limits
    found = []
    if new.max_pages != old.max_pages:
        found.append(await _max_pages(frontier, options))
    if new.max_pages_per_host != old.max_pages_per_host:
        found.append(await _per_host(frontier, options))
    if new.max_depth != old.max_depth:
        found.append(await _max_depth(frontier, options))
    if new.max_pending != old.max_pending:
        found.append(await _max_pending(frontier, options))
    return found


async def _max_pages(frontier: Frontier, options: JobOptions) -> Effect:
    stats, most = await frontier.stats(), options.limits.max_pages
    over = 0 if most is None else max(0, stats.remaining - max(0, most - stats.done))
    return Effect(
        option="max_pages",
        was=frontier.options.limits.max_pages,
        becomes=most,
        urls=over,
        says="known URLs would not be fetched; they stay in the queue",
    )


async def _per_host(frontier: Frontier, options: JobOptions) -> Effect:
    most, over, looked = options.limits.max_pages_per_host, 0, 0
    for shard in frontier.shards:
        async for names in scan_names(shard, "hosts"):
            for one in await host_facts(shard, names):
                budget = one.own.get("max_pages", most)
                left = one.queued if budget is None else max(0, budget - one.pages - one.in_flight)
                over += int(max(0, one.queued - left))
            looked += len(names)
            if looked >= LOOK_AT:
                break
    return Effect(
        option="max_pages_per_host",
        was=frontier.options.limits.max_pages_per_host,
        becomes=most,
        urls=over,
        says="pending URLs would be shelved: the budget of their host would be spent",
        exact=looked < LOOK_AT,
    )


async def _max_depth(frontier: Frontier, options: JobOptions) -> Effect:
    most, deeper, looked = options.limits.max_depth, 0, 0
    for shard in frontier.shards:
        async for names in scan_names(shard, "task"):
            facts = await request_facts(shard, [(name, "") for name in names])
            depths = [one.request.depth for one in facts if one.request and not one.dead]
            deeper += sum(most is not None and depth >= most for depth in depths)
            looked += len(names)
            if looked >= LOOK_AT:
                break
    return Effect(
        option="max_depth",
        was=frontier.options.limits.max_depth,
        becomes=most,
        urls=deeper,
        says="URLs that wait are as deep: they are still fetched, but their links are not followed",
        exact=looked < LOOK_AT,
    )


async def _max_pending(frontier: Frontier, options: JobOptions) -> Effect:
    stats, most = await frontier.stats(), options.limits.max_pending
    over = 0 if most is None else max(0, stats.pending - stats.shelved + stats.delayed - most)
    return Effect(
        option="max_pending",
        was=frontier.options.limits.max_pending,
        becomes=most,
        urls=over,
        says="URLs too many wait already; none is dropped, and pushes are refused until they go",
    )
