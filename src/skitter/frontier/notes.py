"""What an operator should know about a job, beside its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.frontier.crew import crew
from skitter.frontier.rules import filter_problems
from skitter.frontier.wire import side_by_side

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


async def notes(frontier: Frontier) -> list[str]:
    """What stands in the way of those at work, and of the job itself, each said once."""
    said = {f"{one.kind}: {one.note}" for one in await crew(frontier) if one.note}
    return [*sorted(said), *await filter_notes(frontier)]


async def filter_notes(frontier: Frontier) -> list[str]:
    """Whether the Bloom filter of any shard is past its capacity; the fullest is told of."""
    if frontier.layout.bloom is None:
        return []
    parts = await side_by_side(shard.counts() for shard in frontier.shards)
    seen = max(counts.get("seen", 0) for _, counts in parts)
    problems = filter_problems(frontier.layout.bloom, seen)
    return [f"the Bloom filter {says}" for says in problems]
