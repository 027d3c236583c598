"""What a job of Scrapy keeps: what it took over from scrapy-redis, and the number of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.frontier.admin.control import write_control
from skitter.frontier.scripts import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier


async def set_adopted(frontier: Frontier) -> None:
    """Fingerprints of the job were made by scrapy-redis: its nodes go on making them so."""
    await write_control(frontier, {"adopted": 1})


async def is_adopted(frontier: Frontier) -> bool:
    return bool(await frontier.home.command("HGET", "control", "adopted"))


async def adopt_seen(frontier: Frontier, fingerprints: Sequence[str]) -> int:
    """Remember requests that were done elsewhere. Returns how many are new.

    All are kept by the first shard: a job of Scrapy has no other.
    """
    return (await frontier.home.adopt(fingerprints)).count(Code.NEW)


async def start_run(frontier: Frontier, number: int) -> None:
    await frontier.home.command("HSET", "stats", "run", number)


async def read_run(frontier: Frontier) -> int:
    """0: there was none yet."""
    return int(await frontier.home.command("HGET", "stats", "run") or 0)
