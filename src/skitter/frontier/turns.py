"""Clocks shared by several hosts or jobs. They belong to no job, and expire when unused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skitter.frontier.scripts import script
from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

#: A place is freed after this long, even if its request never gives it back.
HELD_S: Final = 60.0
#: Above this limit, requests in flight are not counted.
MAX_PLACES: Final = 1000
#: Default arguments: no moment, no rest, no place.
NOTHING: Final[dict[str, object]] = {
    "moment_ms": 0, "delay_ms": 0, "max_wait_ms": -1, "for_ms": 0,
    "place": "", "limit": -1, "held_ms": ms(HELD_S),
}  # fmt: skip


class Turn(NamedTuple):
    """When to leave. A moment of 0: the wait is too long, and nothing is reserved."""

    wait_s: float
    moment_ms: int


class Place(NamedTuple):
    """The place of a request among those in flight on a shared clock."""

    name: str
    limit: int  # how many may be in flight


async def take_turn(
    frontier: Frontier, clock: str, place: Place | None = None, **wanted: float
) -> Turn:
    """Ask a clock for a moment, and for a place among those in flight. `delay_s`: after the last
    moment granted; `max_wait_s`: not longer; `moment_ms`: an earlier grant, if still unused."""
    name, limit = place or ("", -1)
    return await _call(
        frontier,
        clock,
        moment_ms=int(wanted.get("moment_ms", 0)),
        delay_ms=ms(wanted["delay_s"]),
        max_wait_ms=ms(wanted["max_wait_s"]),
        place=name,
        limit=limit if limit <= MAX_PLACES else -1,
    )


async def give_back(frontier: Frontier, clock: str, place: Place) -> None:
    """Free the place of a finished request."""
    await _call(frontier, clock, place=place.name, limit=0)


async def begin_rest(frontier: Frontier, clock: str, *, for_s: float) -> None:
    """Grant no moment for `for_s`."""
    await _call(frontier, clock, for_ms=ms(for_s))


async def _call(frontier: Frontier, clock: str, **given: int | str) -> Turn:
    shard, code = frontier.home, script("turn")
    values = NOTHING | given | {"now": shard.clock() if shard.clock else ""}
    arguments = code.arguments(values, ())
    key = shard.keys.key("clock", clock)
    wait_ms, moment_ms = await shard.server.call(code, [key], arguments)
    return Turn(wait_ms / 1000, moment_ms)
