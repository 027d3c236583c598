"""Messages that other programs push to their own key, taken in batches.

A batch is kept until its requests are in the frontier; if the process dies, another takes it over.
Requests derive their identity from the name of the batch, so a message makes its requests once,
however often it is read. In a cluster, a key of others may be on any node: the copy of a batch is
then beside it, in its hash slot.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from skitter.errors import UsageError
from skitter.frontier.replication import is_cluster
from skitter.frontier.scripts import script
from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier

KEEP_S = 30.0
AT_ONCE = 1000  # bounds the work of a script; the rest of a larger batch follows at once
_TAG = re.compile(r"\{([^}]+)\}")


class Messages(NamedTuple):
    """A batch of messages."""

    name: str
    place: str  # the key of its copy
    texts: list[bytes]
    scores: list[float]  # of each, if they are from a sorted set


async def has_messages(frontier: Frontier, keys: Sequence[str]) -> bool:
    """One cheap command, or one per key in a cluster, for callers that poll."""
    for some in [[key] for key in keys] if is_cluster(frontier.server.client) else [keys]:
        if await frontier.server.command("EXISTS", *some):
            return True
    return False


async def take_batch(frontier: Frontier, keys: Sequence[str], *, limit: int) -> Messages | None:
    """The next messages, from a list, a set or a sorted set."""
    for place, some in _places(frontier, keys):
        if answer := await _take(frontier, place, some, limit=min(limit, AT_ONCE)):
            return _checked(place, answer)
    return None


async def finish_batch(frontier: Frontier, *, name: str, place: str) -> None:
    """Drop a batch whose requests are all in the frontier."""
    await frontier.server.command("HDEL", place, name)


def _places(frontier: Frontier, keys: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Where to keep batches, and of which keys."""
    if not is_cluster(frontier.server.client):
        return [(frontier.home.keys.key("feeding"), keys)]
    return [(_beside(key, frontier.job), [key]) for key in keys]


def _beside(key: str, job: str) -> str:
    """A key in the same hash slot."""
    found = _TAG.search(key)
    return f"{{{found[1] if found else key}}}:skitter:{job}:feeding"


async def _take(frontier: Frontier, place: str, keys: Sequence[str], *, limit: int) -> Any:
    shard, code = frontier.home, script("feed")
    values: dict[str, object] = {
        "now": shard.clock() if shard.clock else "",
        "limit": limit,
        "ttl_ms": ms(KEEP_S),
        "token": uuid.uuid4().hex,
    }
    return await shard.server.call(code, [place], code.arguments(values, keys))


def _checked(place: str, answer: list[bytes]) -> Messages:
    name, scores, *texts = answer
    if not name:
        key, kind = scores.decode("utf-8", "replace"), texts[0].decode()
        raise UsageError(
            f"{key} is a {kind}, but messages are read from a list, a set or a sorted set: push to "
            "another key, or remove this one."
        )
    return Messages(name.decode(), place, texts, [float(one) for one in scores.split()])
