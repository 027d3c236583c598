"""The callback of a job: what runs once when it is finished, whoever notices and whoever is killed.

Finding the job finished and taking on the callback is one step on the server. Only the process
that still holds it may store the result, so one result counts, for all who ask later.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


class Turn(StrEnum):
    """Whose it is to run the callback."""

    WAIT = "wait"  # the job is not finished
    HELD = "held"  # another process runs it
    YOURS = "yours"
    DONE = "done"


class Claimed(NamedTuple):
    """The answer to a claim; the value of a callback that has run."""

    turn: Turn
    value: bytes


async def claim_callback(frontier: Frontier, claim: str, *, ttl_s: float) -> Claimed:
    """Take it on for so long; with the same claim again, keep it.

    Of a job with several shards only the first is looked at: ask `stats` before.
    """
    turn, value = await frontier.home.claim_callback(claim=claim, ttl_ms=ms(ttl_s))
    return Claimed(Turn(turn.decode()), value)


async def finish_callback(frontier: Frontier, claim: str, value: bytes) -> bool:
    """It has run. False: another process took it over, and this value does not count."""
    return bool(await frontier.home.finish_callback(claim=claim, value=value))


async def reset_callback(frontier: Frontier) -> None:
    """The job goes on, and will finish again."""
    await frontier.home.command("DEL", "callback")
