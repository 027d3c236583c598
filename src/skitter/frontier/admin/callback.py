"""A job's callback: it runs once when the job is finished, even if processes die.

Checking that the job is finished and claiming the callback is one step on the server. Only the
process that still holds the claim may store the result, so everyone sees the same one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


class Turn(StrEnum):
    """Who is to run the callback."""

    WAIT = "wait"  # the job is not finished
    HELD = "held"  # another process is running it
    YOURS = "yours"
    DONE = "done"


class Claimed(NamedTuple):
    """The answer to a claim; `value` is the result of a callback that has run."""

    turn: Turn
    value: bytes


async def claim_callback(frontier: Frontier, claim: str, *, ttl_s: float) -> Claimed:
    """Claim the callback for `ttl_s`, or extend an earlier claim of the same name.

    Only the first shard is checked: with several, look at `stats` first.
    """
    turn, value = await frontier.home.claim_callback(claim=claim, ttl_ms=ms(ttl_s))
    return Claimed(Turn(turn.decode()), value)


async def finish_callback(frontier: Frontier, claim: str, value: bytes) -> bool:
    """Store its result. False: another process took over, and this result is dropped."""
    return bool(await frontier.home.finish_callback(claim=claim, value=value))


async def reset_callback(frontier: Frontier) -> None:
    """Let it run again, for a job that goes on and will finish again."""
    await frontier.home.command("DEL", "callback")
