"""Lines for the index of the archive: of pages that were completed, until they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

AT_ONCE = 1000


async def unwritten(frontier: Frontier) -> dict[int, list[str]]:
    """By shard."""
    return {
        shard.keys.shard: [line.decode() for line in await shard.command("SMEMBERS", "archived")]
        for shard in frontier.shards
    }


async def forget_written(frontier: Frontier, shard: int, lines: list[str]) -> None:
    for start in range(0, len(lines), AT_ONCE):
        some = lines[start : start + AT_ONCE]
        await frontier.shards[shard].command("SREM", "archived", *some)
