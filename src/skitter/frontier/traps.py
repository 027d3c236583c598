"""Traps: each shape of URLs has a budget, which decides whether a lease may be fetched.

docs/howto/traps.md is for users; docs/adr/0027-traps-are-held-by-shape.md explains why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.wire import scatter, side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard
    from skitter.model import Lease, Stats

BATCH = 200
FREE_AT_ONCE = 500


class Permit(NamedTuple):
    """The frontier's decision about one lease."""

    is_ours: bool  # it may be fetched; else it is held, or lost
    ahead: int  # further pages of its shape that may be fetched without asking
    is_shared: bool = False  # its host has too many shapes, so they share a budget


async def ask_permits(frontier: Frontier, asked: Sequence[tuple[Lease, int, bool]]) -> list[Permit]:
    """Ask for leases, each with the number of its shape and whether it was found on a page of that
    shape. Leases without a permit have ended."""

    async def send(shard: int, part: list[int]) -> list[Permit]:
        answer = await frontier.shards[shard].trap([_row(*asked[i]) for i in part])
        pairs = zip(answer[::2], answer[1::2], strict=True)
        return [Permit(said in (1, 2), ahead, is_shared=said == 2) for said, ahead in pairs]

    places = [frontier.layout.shard_of(lease.host) for lease, *_ in asked]
    return await scatter(places, send, batch=BATCH)


def _row(lease: Lease, number: int, bred: bool) -> tuple[str, str, int, int, int]:
    moment_ms = lease.pace.moment_ms if lease.pace else 0
    return lease.fingerprint, lease.token, number, int(bred), moment_ms


async def look_again(frontier: Frontier, stats: Stats) -> int:
    """If nothing else is left, free some held URLs to see whether the shape has an end. Returns how
    many became pending."""
    if not stats.looks or stats.remaining or stats.reopened or stats.due:
        return 0
    return sum(await side_by_side(shard.look() for shard in frontier.shards))


async def free_trapped(frontier: Frontier) -> int:
    """Make all held URLs pending again, in small steps. Returns how many."""

    async def free(shard: Shard) -> int:
        left = total = await shard.command("ZCARD", "trapped")
        while left > 0:  # no more than there were: those over budget are held again
            left -= await shard.free_trapped(at_most=min(left, FREE_AT_ONCE)) or left
        return int(total)

    return sum(await side_by_side(free(shard) for shard in frontier.shards))
