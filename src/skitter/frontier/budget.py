"""One limit over many shards: each has a share of max_pages, and asks for more when it is short.

Shard 0 knows all shares (lua/grant.lua); a shard tells what it has, and returns what it does not
need (lua/allow.lua). Any client that finds a shard short carries the messages, and may die between
any two of them. All shares together are never more than the limit, so that max_pages is exact
whoever asks, however often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.wire import side_by_side

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.frontier.shard import Shard

CEDE_NOTHING = -1


class Share(NamedTuple):
    """What a shard has of max_pages, as allow.lua answers it."""

    granted: int
    ceded: int
    used: int


async def refill(shards: Sequence[Shard], wants: Mapping[int, int]) -> list[int]:
    """Bring pages to shards that are short of them. Returns those that may hand out more now.

    What is not granted yet first; if that is not enough, what other shards have and do not need.
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
            return []  # the limit is just being set or removed, shard by shard
        free = [told - one.ceded - one.used for told, one in zip(granted, shares, strict=True)]
        elsewhere = any(pages > 0 for i, pages in enumerate(free) if i not in wants)
        if not elsewhere or all(free[i] >= want for i, want in wants.items()):
            break
    fed = [i for i in wants if free[i] > 0]
    await _allow([shards[i] for i in fed], [granted[i] for i in fed], keep=CEDE_NOTHING)
    return fed


async def _allow(shards: Sequence[Shard], granted: Sequence[int], *, keep: int) -> list[list[int]]:
    return await side_by_side(
        shard.allow(told=told, keep=keep) for shard, told in zip(shards, granted, strict=True)
    )


async def read_budget(shards: Sequence[Shard]) -> dict[str, str]:
    """How max_pages is shared out, as grant.lua wrote it; for the audit."""
    return await shards[0].read_hash("budget")
