"""The feed: messages that others push to a key of their own, for RedisSpider.

They are taken in batches and kept aside until the requests they became are in the frontier; a batch
of a node that died is taken over. Each batch has a name, from which its requests get theirs, so
that a message makes its requests once, however often it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

KEEP_S = 30.0


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Where messages come from, the first key first."""

    keys: tuple[str, ...]
    batch_size: int = 16


async def take_batch(frontier: Frontier, feed: FeedOptions) -> tuple[str, list[bytes]] | None:
    """The next messages and the name of their batch, of whatever type the key is."""
    answer = await frontier.shards[0].call(
        "feed", list(feed.keys), limit=feed.batch_size, ttl_ms=round(KEEP_S * 1000)
    )
    if not answer:
        return None
    name, *messages = answer
    return name.decode(), messages


async def done_with(frontier: Frontier, name: str) -> None:
    """All that its messages became is in the frontier."""
    shard = frontier.shards[0]
    await shard.server.command("HDEL", shard.keys.key("feeding"), name)
