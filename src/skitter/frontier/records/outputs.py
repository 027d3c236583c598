"""The outputs of a job: the main one and further ones, each a reader of its items.

Every output is a consumer group on the item stream. An item leaves the stream when all of them have
acknowledged it, so one that is away holds up no other. docs/adr/0089-several-outputs.md

The main output is claimed: it has all that was ever stored, and whoever names others without it is
refused. A further one is complete when it was there from the first item on, or was filled with what
the main one has:

    (absent) -> filling -> full          named by a run; filled by its loader
    filling, full -> leaving -> (absent) not named by a later run
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from skitter.errors import ItemsElsewhere, OutputDropped, OutputIncomplete
from skitter.frontier.items import GROUP, PAGE, TAKE_OVER_S, ItemStream
from skitter.frontier.workers import SILENCE_S, live_workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.model import Result

FILLING: Final = "filling"
FULL: Final = "full"
LEAVING: Final = "leaving"


# --- the main output ------------------------------------------------------------------------------


async def claim_sink(frontier: Frontier, place: str, *, moved_from: str = "") -> None:
    """Set where the items go. Raises ItemsElsewhere if they already go to another place.

    `moved_from`: the name of the place before its owner moved it.
    """
    instead = await check_sink(frontier, place, moved_from=moved_from)
    held = await frontier.home.sink(place=place, instead=instead)
    if held != place.encode():
        raise ItemsElsewhere(frontier.job, held.decode("utf-8", "replace"), stored=0)


async def check_sink(frontier: Frontier, place: str, *, moved_from: str = "") -> str:
    """Check without claiming. Returns the place that this one replaces; empty: none.

    A place that has received nothing, and that no loader is about to use, may be replaced.
    """
    held, idle_s = await _find(frontier)
    if held in ("", place, moved_from):
        return held
    stored = (await frontier.stats()).stored
    if stored or idle_s < SILENCE_S or await _is_loading(frontier) or await _has_read(frontier):
        raise ItemsElsewhere(frontier.job, held, stored=stored)
    return held


async def find_sink(frontier: Frontier) -> str:
    """The main output; empty: not decided yet."""
    return (await _find(frontier))[0]


async def _find(frontier: Frontier) -> tuple[str, float]:
    """The place, and how many seconds ago it was last claimed."""
    place, at = await frontier.home.command("HMGET", "sink", "place", "at")
    if not place:
        return "", 0.0
    claimed_at = int(at) / 1000 if at and at.isdigit() else 0.0
    return place.decode("utf-8", "replace"), await frontier.server_time() - claimed_at


async def _is_loading(frontier: Frontier) -> bool:
    return any(beat.kind == "loader" for beat in await live_workers(frontier))


async def _has_read(frontier: Frontier) -> bool:
    """Whether the main output has got items. With a further one that is away, none counts as
    stored."""
    if not await further(frontier):
        return False
    found = [await _behind(shard) for shard in frontier.shards]
    return any(of[GROUP].has_read for of in found if GROUP in of)


# --- further outputs ------------------------------------------------------------------------------


async def further(frontier: Frontier) -> dict[str, str]:
    """The further outputs, and how far each is."""
    return await frontier.home.read_hash("also")


async def add_output(frontier: Frontier, place: str, *, can_fill: bool) -> None:
    """From now on, no item leaves the stream without it. `can_fill`: the main output can be read
    back, for what has left already. Else raises OutputIncomplete, if that is anything."""
    state = (await further(frontier)).get(place)
    if state == LEAVING:
        await drop_output(frontier, place)
    elif state is not None:
        return
    await frontier.home.command("HSETNX", "also", place, FILLING)
    for shard in frontier.shards:
        await shard.group(name=GROUP)  # or an item that the main one has not read could leave
        await shard.group(name=_group(place))
    if can_fill:
        return
    if (await frontier.stats()).stored:
        await drop_output(frontier, place)
        raise OutputIncomplete(frontier.job, place, main=await find_sink(frontier))
    await note_full(frontier, place)


async def note_full(frontier: Frontier, place: str) -> None:
    """It has all that has left the stream."""
    await frontier.home.command("HSET", "also", place, FULL)


async def drop_output(frontier: Frontier, place: str) -> None:
    """Items no longer wait for it. Safe to repeat, and repeated by the next run if interrupted."""
    await frontier.home.command("HSET", "also", place, LEAVING)  # so that its loader ends
    for shard in frontier.shards:
        key = shard.keys.key("items")
        await shard.group(name=_group(place))  # else, there may be no stream
        await shard.server.command("XGROUP", "DESTROY", key, _group(place))
        after = "-"
        while page := await shard.command("XRANGE", "items", after, "+", "COUNT", PAGE):
            ids = [entry.decode() for entry, _ in page]
            await shard.unload(ids, name="", stored=1, updated=0)
            after = f"({ids[-1]}"
    await frontier.home.command("HDEL", "also", place)


def _group(place: str) -> str:
    return f"{GROUP} {place}"


@dataclass(slots=True)
class FurtherStream(ItemStream):
    """The items for one loader of a further output. Raises OutputDropped when it is none."""

    place: str = field(kw_only=True)

    def __post_init__(self) -> None:
        self.group = _group(self.place)

    async def acknowledge(
        self, stored: Sequence[Result], others: Sequence[Result] = (), *, updated: int = 0
    ) -> None:
        """Updated rows are counted once, for the main output."""
        await ItemStream.acknowledge(self, stored, others)

    async def _begin(self, shard: Shard) -> None:
        if shard.keys.shard not in self._begun:
            if (await further(self.frontier)).get(self.place) not in (FILLING, FULL):
                raise OutputDropped(self.frontier.job, self.place)
            self._begun.add(shard.keys.shard)


def stream_of(
    frontier: Frontier, loader: str, take_over_s: float = TAKE_OVER_S, *, place: str = ""
) -> ItemStream:
    """The items of an output; without a place, of the main one."""
    if not place:
        return ItemStream(frontier, loader, take_over_s)
    return FurtherStream(frontier, loader, take_over_s, place=place)


# --- what waits for which -------------------------------------------------------------------------


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """How far an output is behind."""

    place: str
    items: int  # that wait for it; at most, while it has not caught up once
    since: float | None = None  # when the first of them was found
    state: str = FULL


async def backlogs(frontier: Frontier) -> list[Backlog]:
    """Of every output, the main one first; none if there is only one."""
    states = await further(frontier)
    if not states:
        return []
    groups = {await find_sink(frontier): GROUP} | {place: _group(place) for place in states}
    found = [await _behind(shard) for shard in frontier.shards]
    return [
        _backlog(place, states.get(place, FULL), [of[group] for of in found if group in of])
        for place, group in groups.items()
    ]


def _backlog(place: str, state: str, of_shards: list[_Behind]) -> Backlog:
    items = sum(shard.items for shard in of_shards)
    since = min((shard.since for shard in of_shards if shard.since), default=None)
    return Backlog(place=place, items=items, since=since, state=state)


class _Behind(NamedTuple):
    """Of one output, in one shard."""

    has_read: bool
    items: int
    since: float | None


async def _behind(shard: Shard) -> dict[str, _Behind]:
    flat = await shard.behind()
    return {
        name.decode(): _Behind(
            bool(has_read), items, int(first.partition(b"-")[0]) / 1000 if first else None
        )
        for name, has_read, items, first in zip(*(flat[at::4] for at in range(4)), strict=True)
    }
