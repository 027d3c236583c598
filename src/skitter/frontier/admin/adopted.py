"""State of a Scrapy job: what it took over from scrapy-redis, and its run number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.frontier.admin.control import write_control
from skitter.frontier.scripts import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier


async def set_adopted(frontier: Frontier) -> None:
    """The job's fingerprints come from scrapy-redis: its nodes keep computing them the same way."""
    await write_control(frontier, {"adopted": 1})


async def is_adopted(frontier: Frontier) -> bool:
    return bool(await frontier.home.command("HGET", "control", "adopted"))


async def adopt_seen(frontier: Frontier, fingerprints: Sequence[str]) -> int:
    """Mark requests that were done elsewhere as seen. Returns how many were new.

    All go to the first shard: a Scrapy job has no other.
    """
    return (await frontier.home.adopt(fingerprints)).count(Code.NEW)


async def start_run(frontier: Frontier, number: int) -> None:
    await frontier.home.command("HSET", "stats", "run", number)


async def read_run(frontier: Frontier) -> int:
    """0 before the first run."""
    return int(await frontier.home.command("HGET", "stats", "run") or 0)
