"""The one place that the items of a job go to: what is loaded leaves the stream, so that a second
sink would get a part of them, and each of both would be taken for the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.errors import ItemsElsewhere
from skitter.frontier.crew import SILENCE_S, crew

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


async def claim_sink(frontier: Frontier, place: str, *, moved_from: str = "") -> None:
    """Say where the items go; ItemsElsewhere if that is another place than before.

    A place that got nothing, and that no loader is about to use, is given up for a new one.
    `moved_from`: what the place was called before its owner moved it.
    """
    held, idle_s = await _claim(frontier, place, instead=moved_from)
    if held == place:
        return
    stored = (await frontier.stats()).stored
    if stored or idle_s < SILENCE_S or await _is_loading(frontier):
        raise ItemsElsewhere(frontier.job, held, stored=stored)
    held, _ = await _claim(frontier, place, instead=held)
    if held != place:
        raise ItemsElsewhere(frontier.job, held, stored=0)


async def find_sink(frontier: Frontier) -> str | None:
    """Where the items go, as far as anybody said."""
    shard = frontier.shards[0]
    place: bytes | None = await shard.server.command("HGET", shard.keys.key("sink"), "place")
    return place.decode("utf-8", "replace") if place else None


async def _claim(frontier: Frontier, place: str, *, instead: str) -> tuple[str, float]:
    held, idle_ms = await frontier.shards[0].call("sink", place=place, instead=instead)
    return held.decode("utf-8", "replace"), idle_ms / 1000


async def _is_loading(frontier: Frontier) -> bool:
    return any(one.kind == "loader" for one in await crew(frontier))
