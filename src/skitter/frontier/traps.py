"""Traps: each shape of URLs has a budget, which decides whether a lease may be fetched.

docs/howto/traps.md is for users; docs/adr/0051-what-is-beyond-goes-last.md explains why.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.facts import open_body
from skitter.frontier.wire import scatter, side_by_side
from skitter.shapes import number_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard
    from skitter.model import Lease, Stats

BATCH = 200
FREE_AT_ONCE = 500
MAX_NAMED = 1000  # shapes in a report


class Permit(NamedTuple):
    """The frontier's decision about one lease."""

    is_ours: bool  # it may be fetched; else it is held, or lost
    ahead: int  # further pages of its shape that may be fetched without asking


async def ask_permits(frontier: Frontier, asked: Sequence[tuple[Lease, int]]) -> list[Permit]:
    """Ask for leases, each with the number of its shape. Leases without a permit have ended."""

    async def send(shard: int, part: list[int]) -> list[Permit]:
        answer = await frontier.shards[shard].trap([_row(*asked[i]) for i in part])
        pairs = zip(answer[::2], answer[1::2], strict=True)
        return [Permit(said == 1, ahead) for said, ahead in pairs]

    places = [frontier.layout.shard_of(lease.host) for lease, _ in asked]
    return await scatter(places, send, batch=BATCH)


def _row(lease: Lease, number: int) -> tuple[str, str, int, int]:
    return lease.fingerprint, lease.token, number, lease.moment_ms


async def look_again(frontier: Frontier, stats: Stats) -> int:
    """If nothing else is left, it is the turn of held URLs. Returns how many became pending."""
    if not stats.looks or stats.remaining or stats.reopened or stats.due:
        return 0
    return sum(await side_by_side(shard.look() for shard in frontier.shards))


async def held_shapes(frontier: Frontier) -> dict[str, int]:
    """How many URLs are held, by shape, most first."""
    found = Counter[str]()
    for shard in frontier.shards:
        left = await shard.command("ZCARD", "trapped")
        for member in await shard.command("ZRANGE", "looks", 0, MAX_NAMED - 1) if left else ():
            number, _, host = member.decode("utf-8", "replace").partition(" ")
            of_it = ("trapped", number, number)
            if held := await shard.command("ZCOUNT", *of_it):
                [first] = await shard.command("ZRANGEBYSCORE", *of_it, "LIMIT", 0, 1)
                record = await shard.command("HGET", "task", first)
                found[_name_of(record, host, int(number))] += held
                left -= held
        if left > 0:
            found["other shapes"] += left
    return dict(found.most_common())


def _name_of(record: bytes | None, host: str, number: int) -> str:
    """The server knows shapes by their numbers only."""
    request = open_body(record)[2] if record else None
    shape = shape_of(request.url) if request else ""
    return shape if number_of(shape) == number else f"{host}/..."  # one of many that share a budget


async def free_trapped(frontier: Frontier) -> int:
    """Make all held URLs pending again, in small steps. Returns how many."""

    async def free(shard: Shard) -> int:
        left = total = await shard.command("ZCARD", "trapped")
        while left > 0:  # no more than there were: those over budget are held again
            left -= await shard.free_trapped(at_most=min(left, FREE_AT_ONCE)) or left
        return int(total)

    return sum(await side_by_side(free(shard) for shard in frontier.shards))
