"""The one place that the items of a job go to.

What is loaded leaves the stream: of two sinks each would get a part, and be taken for the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.errors import ItemsElsewhere
from skitter.frontier.admin.workers import SILENCE_S, live_workers

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


async def claim_sink(frontier: Frontier, place: str, *, moved_from: str = "") -> None:
    """Say where the items go. Raises ItemsElsewhere if that is another place than before.

    `moved_from`: what the place was called before its owner moved it.
    """
    instead = await check_sink(frontier, place, moved_from=moved_from)
    held = await frontier.home.sink(place=place, instead=instead)
    if held != place.encode():
        raise ItemsElsewhere(frontier.job, held.decode("utf-8", "replace"), stored=0)


async def check_sink(frontier: Frontier, place: str, *, moved_from: str = "") -> str:
    """The same, and claim nothing. Returns the place that this one replaces; empty: none.

    A place that got nothing, and that no loader is about to use, is given up for a new one.
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


async def _find(frontier: Frontier) -> tuple[str, float]:
    """The place, and for how many seconds it was not claimed."""
    place, at = await frontier.home.command("HMGET", "sink", "place", "at")
    if not place:
        return "", 0.0
    claimed_at = int(at) / 1000 if at and at.isdigit() else 0.0
    return place.decode("utf-8", "replace"), await frontier.server_time() - claimed_at


async def _is_loading(frontier: Frontier) -> bool:
    return any(one.kind == "loader" for one in await live_workers(frontier))
