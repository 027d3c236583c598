"""The feed: messages that others push to a key of their own, for RedisSpider.

They are taken in batches and kept aside until the requests they became are in the frontier; a batch
of a node that died is taken over. Each batch has a name, from which its requests get theirs, so
that a message makes its requests once, however often it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

KEEP_S = 30.0
AT_ONCE = 1000  # the work of a script is bounded; the rest of a larger batch follows at once


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Where messages come from, the first key first."""

    keys: tuple[str, ...]
    batch_size: int = 16


async def has_messages(frontier: Frontier, feed: FeedOptions) -> bool:
    """One small command a key, for those who ask all the time."""
    server = frontier.shards[0].server
    for key in feed.keys:
        if await server.command("EXISTS", key):
            return True
    return False


async def take_batch(frontier: Frontier, feed: FeedOptions) -> tuple[str, list[bytes]] | None:
    """The next messages and the name of their batch, of whatever type the key is."""
    answer = await frontier.shards[0].call(
        "feed", list(feed.keys), limit=min(feed.batch_size, AT_ONCE), ttl_ms=round(KEEP_S * 1000)
    )
    if not answer:
        return None
    name, *messages = answer
    if not name:
        key, kind = (one.decode("utf-8", "replace") for one in messages)
        raise UsageError(
            f"{key} is a {kind}, and messages come from a list, a set or a sorted set: push to "
            "another key, or remove this one."
        )
    return name.decode(), messages


async def done_with(frontier: Frontier, name: str) -> None:
    """All that its messages became is in the frontier."""
    shard = frontier.shards[0]
    await shard.server.command("HDEL", shard.keys.key("feeding"), name)
