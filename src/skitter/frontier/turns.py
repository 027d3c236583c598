"""Clocks that several hosts or several jobs share. They belong to no job, and expire unused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.scripts import script
from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier


class Turn(NamedTuple):
    """When to leave. Without a moment the wait is too long, and nothing is reserved."""

    wait_s: float
    moment_ms: int


async def take_turn(
    frontier: Frontier, clock: str, *, delay_s: float, most_s: float, moment_ms: int = 0
) -> Turn:
    """Ask a clock for a moment. `moment_ms`: the one it granted before, if it was not used."""
    return await _call(
        frontier, clock, moment_ms=moment_ms, delay_ms=ms(delay_s), most_ms=ms(most_s), for_ms=0
    )


async def begin_rest(frontier: Frontier, clock: str, *, for_s: float) -> None:
    """Nobody gets a moment before it is over."""
    await _call(frontier, clock, moment_ms=0, delay_ms=0, most_ms=-1, for_ms=ms(for_s))


async def _call(frontier: Frontier, clock: str, **values: int) -> Turn:
    shard, code = frontier.home, script("turn")
    arguments = code.arguments({"now": shard.clock() if shard.clock else "", **values}, ())
    key = shard.keys.key("clock", clock)
    wait_ms, moment_ms = await shard.server.call(code, [key], arguments)
    return Turn(wait_ms / 1000, moment_ms)
