"""The one place where the items of a job go.

Loaded items leave the stream, so with two sinks each would get a part that looks complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.errors import ItemsElsewhere
from skitter.frontier.admin.workers import SILENCE_S, live_workers

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


async def claim_sink(frontier: Frontier, place: str, *, moved_from: str = "") -> None:
    """Set where the items go. Raises ItemsElsewhere if they already go to another place.

    `moved_from`: the name of the place before its owner moved it.
    """
    instead = await check_sink(frontier, place, moved_from=moved_from)
    held = await frontier.home.sink(place=place, instead=instead)
    if held != place.encode():
        raise ItemsElsewhere(frontier.job, held.decode("utf-8", "replace"), stored=0)


async def check_sink(frontier: Frontier, place: str, *, moved_from: str = "") -> str:
    """Check without claiming. Returns the place that this one replaces; empty: none.

    A place that has received nothing, and that no loader is about to use, may be replaced.
    """
    held, idle_s = await _find(frontier)
    if held in ("", place, moved_from):
        return held
    stored = (await frontier.stats()).stored
    if stored or idle_s < SILENCE_S or await _is_loading(frontier):
        raise ItemsElsewhere(frontier.job, held, stored=stored)
    return held


async def find_sink(frontier: Frontier) -> str:
    """Where the items go; empty: not decided yet."""
    return (await _find(frontier))[0]


async def oldest_item_at(frontier: Frontier) -> float | None:
    """When the item that has waited longest for a loader was found."""
    found = []
    for shard in frontier.shards:
        for entry, _ in await shard.command("XRANGE", "items", "-", "+", "COUNT", 1):
            found.append(int(entry.partition(b"-")[0]) / 1000)
    return min(found, default=None)


async def _find(frontier: Frontier) -> tuple[str, float]:
    """The place, and how many seconds ago it was last claimed."""
    place, at = await frontier.home.command("HMGET", "sink", "place", "at")
    if not place:
        return "", 0.0
    claimed_at = int(at) / 1000 if at and at.isdigit() else 0.0
    return place.decode("utf-8", "replace"), await frontier.server_time() - claimed_at


async def _is_loading(frontier: Frontier) -> bool:
    return any(one.kind == "loader" for one in await live_workers(frontier))
