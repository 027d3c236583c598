"""Clocks that several hosts or several jobs share. They belong to no job, and expire unused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skitter.frontier.scripts import script
from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

#: A place is free again after so long, whatever became of the request that had it.
HELD_S: Final = 60.0
#: Above this limit, requests under way are not counted.
MOST_PLACES: Final = 1000
#: Asks for no moment, begins no rest, and has no place.
NOTHING: Final[dict[str, object]] = {
    "moment_ms": 0, "delay_ms": 0, "most_ms": -1, "for_ms": 0,
    "place": "", "most": -1, "held_ms": ms(HELD_S),
}  # fmt: skip


class Turn(NamedTuple):
    """When to leave. Without a moment the wait is too long, and nothing is reserved."""

    wait_s: float
    moment_ms: int


class Place(NamedTuple):
    """A request among those of all who share a clock."""

    name: str
    most: int  # that may be under way


async def take_turn(
    frontier: Frontier, clock: str, place: Place | None = None, **wanted: float
) -> Turn:
    """Ask a clock for a moment, and for a place among those under way. `delay_s`: after whoever
    left last; `most_s`: the longest wait; `moment_ms`: what was granted before, if it was not
    used."""
    name, most = place or ("", -1)
    return await _call(
        frontier,
        clock,
        moment_ms=int(wanted.get("moment_ms", 0)),
        delay_ms=ms(wanted["delay_s"]),
        most_ms=ms(wanted["most_s"]),
        place=name,
        most=most if most <= MOST_PLACES else -1,
    )


async def give_back(frontier: Frontier, clock: str, place: Place) -> None:
    """The request is over."""
    await _call(frontier, clock, place=place.name, most=0)


async def begin_rest(frontier: Frontier, clock: str, *, for_s: float) -> None:
    """No moment is granted before it is over."""
    await _call(frontier, clock, for_ms=ms(for_s))


async def _call(frontier: Frontier, clock: str, **given: int | str) -> Turn:
    shard, code = frontier.home, script("turn")
    values = NOTHING | given | {"now": shard.clock() if shard.clock else ""}
    arguments = code.arguments(values, ())
    key = shard.keys.key("clock", clock)
    wait_ms, moment_ms = await shard.server.call(code, [key], arguments)
    return Turn(wait_ms / 1000, moment_ms)
