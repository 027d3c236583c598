"""One limit over many shards: each gets a share of max_pages, and more when it runs short.

Shard 0 records all shares (lua/grant.lua); each shard reports what it has, and cedes what it does
not need (lua/allow.lua). Any client that finds a shard short relays the messages, and may die
between any two of them. The shares never add up to more than the limit, so max_pages is exact
regardless of how many clients ask and how often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.wire import side_by_side

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.frontier.shard import Shard

CEDE_NOTHING = -1


class Share(NamedTuple):
    """A shard's share of max_pages, as allow.lua reports it."""

    granted: int
    ceded: int
    used: int


async def refill(shards: Sequence[Shard], wants: Mapping[int, int]) -> list[int]:
    """Grant pages to shards that are short. Returns those that may hand out more now.

    First from what is not granted yet; if that is not enough, from what other shards can spare.
    """
    granted = [0] * len(shards)
    for keep in (CEDE_NOTHING, max(wants.values())):
        answers = await _allow(shards, granted, keep=keep)
        shares = [Share(*answer) for answer in answers if answer]
        if len(shares) == len(shards):
            granted = await shards[0].grant(
                [(*share, wants.get(i, 0)) for i, share in enumerate(shares)]
            )
        if len(shares) < len(shards) or not granted:
            return []  # the limit is being set or removed, shard by shard
        free = [total - one.ceded - one.used for total, one in zip(granted, shares, strict=True)]
        elsewhere = any(pages > 0 for i, pages in enumerate(free) if i not in wants)
        if not elsewhere or all(free[i] >= want for i, want in wants.items()):
            break
    fed = [i for i in wants if free[i] > 0]
    await _allow([shards[i] for i in fed], [granted[i] for i in fed], keep=CEDE_NOTHING)
    return fed


async def _allow(shards: Sequence[Shard], granted: Sequence[int], *, keep: int) -> list[list[int]]:
    return await side_by_side(
        shard.allow(granted=total, keep=keep) for shard, total in zip(shards, granted, strict=True)
    )


async def read_budget(shards: Sequence[Shard]) -> dict[str, str]:
    """The shares of max_pages that grant.lua recorded, for the audit."""
    return await shards[0].read_hash("budget")
