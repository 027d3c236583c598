"""What a crawl keeps beside its rows: lines for the index of the archive, and how many files.

The lines are of pages that were completed, until they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.transport.messages import side_by_side

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

AT_ONCE = 1000


async def unwritten(frontier: Frontier) -> dict[int, list[str]]:
    """By shard."""
    return {
        shard.keys.shard: [line.decode() for line in await shard.command("SMEMBERS", "archived")]
        for shard in frontier.shards
    }


async def forget_written(frontier: Frontier, shard: int, lines: list[str]) -> int:
    """How many nobody else has written and forgotten meanwhile."""
    count = 0
    for start in range(0, len(lines), AT_ONCE):
        some = lines[start : start + AT_ONCE]
        count += await frontier.shards[shard].command("SREM", "archived", *some)
    return count


class Downloads(NamedTuple):
    """Files that the fleet has downloaded for a job. One counts twice if its worker dies before its
    lease ends."""

    files: int
    bytes: int


async def count_download(frontier: Frontier, size: int) -> None:
    """A file is in the store."""
    counts = {"files": 1, "bytes": size}
    await side_by_side(
        frontier.home.command("HINCRBY", "downloads", name, str(count))
        for name, count in counts.items()
    )


async def downloads_of(frontier: Frontier) -> Downloads:
    found = await frontier.home.command("HMGET", "downloads", "files", "bytes")
    return Downloads(*(int(value or 0) for value in found))
