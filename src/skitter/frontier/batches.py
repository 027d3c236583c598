"""Messages that other programs push to their own key, taken in batches.

A batch is kept until its requests are in the frontier; if the process dies, another takes it over.
Requests derive their identity from the name of the batch, so a message makes its requests once,
however often it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.errors import UsageError
from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier

KEEP_S = 30.0
AT_ONCE = 1000  # bounds the work of a script; the rest of a larger batch follows at once


async def has_messages(frontier: Frontier, keys: Sequence[str]) -> bool:
    """One cheap command per key, for callers that poll."""
    for key in keys:
        if await frontier.server.command("EXISTS", key):
            return True
    return False


async def take_batch(
    frontier: Frontier, keys: Sequence[str], *, limit: int
) -> tuple[str, list[bytes]] | None:
    """The next messages and the name of their batch, from a list, a set or a sorted set."""
    answer = await frontier.home.feed(keys, limit=min(limit, AT_ONCE), ttl_ms=ms(KEEP_S))
    if not answer:
        return None
    name, *messages = answer
    if not name:
        key, kind = (one.decode("utf-8", "replace") for one in messages)
        raise UsageError(
            f"{key} is a {kind}, but messages are read from a list, a set or a sorted set: push to "
            "another key, or remove this one."
        )
    return name.decode(), messages


async def finish_batch(frontier: Frontier, name: str) -> None:
    """Drop a batch whose requests are all in the frontier."""
    await frontier.home.command("HDEL", "feeding", name)
