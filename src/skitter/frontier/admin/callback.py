"""The finale: what runs once when a job is finished, whoever notices first, whoever is killed.

Taking it on and finding the job finished is one step on the server. What came of it is written by
whoever still holds it, so one result counts, and it is there for all who ask later.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


class Turn(StrEnum):
    """Whose it is."""

    WAIT = "wait"  # the job is not finished
    HELD = "held"  # somebody else runs it
    YOURS = "yours"
    DONE = "done"


class Finale(NamedTuple):
    """The answer to a claim; the value of one that has run."""

    turn: Turn
    value: bytes


async def claim_finale(frontier: Frontier, claim: str, *, ttl_s: float) -> Finale:
    """Take it on for so long; with the same claim again, keep it.

    Of a job with several shards only the first is looked at: ask `stats` before.
    """
    turn, value = await frontier.shards[0].call("finale", claim=claim, ttl_ms=ms(ttl_s))
    return Finale(Turn(turn.decode()), value)


async def conclude(frontier: Frontier, claim: str, value: bytes) -> bool:
    """It has run. False: it was taken over meanwhile, and this value does not count."""
    return bool(await frontier.shards[0].call("conclude", claim=claim, value=value))


async def reopen_finale(frontier: Frontier) -> None:
    """The job goes on: there will be another end."""
    shard = frontier.shards[0]
    await shard.server.command("DEL", shard.keys.key("finale"))
