"""Items as they are found for those who watch a job, and answers for those who asked for a page.

Items are copies: a loader takes the items themselves away, sooner or later.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from skitter.frontier.items import results_in
from skitter.frontier.workers import FETCHING, live_workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard
    from skitter.model import Result

#: How long items are copied after somebody has asked for the last time, and an answer is kept.
KEPT_S: Final = 600
#: How long it is known that somebody waits for an answer.
WAITING_S: Final = 86_400
ASK_S: Final = 20.0
PAGE: Final = 500
NOWHERE: Final = "0-0"
PLACE = re.compile(r"\d{1,18}-\d{1,18}(,\d{1,18}-\d{1,18})*")


def is_place(text: str) -> bool:
    return bool(PLACE.fullmatch(text))


async def is_over(frontier: Frontier) -> bool:
    """Whether nothing is left to fetch, and nobody works on the job who might add to it."""
    stats = await frontier.stats()
    if not (stats.crawled and stats.seen):
        return False
    return not any(worker.kind in FETCHING for worker in await live_workers(frontier))


@dataclass(slots=True)
class Live:
    """The items of a job from a place on. After a pause, a new one goes on at that place."""

    frontier: Frontier
    places: list[str]  # the last entry that was read, by shard
    has_gap: bool = False  # since the place that it was opened at, some were not kept
    _asked_at: float = field(default_factory=time.monotonic)

    @classmethod
    async def open(cls, frontier: Frontier, at: str = "") -> Self:
        """`at`: the place of an earlier one; empty: from now on."""
        given, places, has_gap = at.split(","), list[str](), False
        if len(given) != len(frontier.shards):
            given = [""] * len(frontier.shards)
        for shard, place in zip(frontier.shards, given, strict=True):
            is_new = await _ask(shard, only_new=True)  # first: what comes from now on is kept
            places.append(place or await _last(shard))
            has_gap |= bool(place) and (is_new or await _is_cut_off(shard, place))
        return cls(frontier, places, has_gap)

    @property
    def place(self) -> str:
        return ",".join(self.places)

    async def read(self) -> list[tuple[str, Result]]:
        """What was found since, each with the place after it."""
        if time.monotonic() - self._asked_at > ASK_S:
            for shard in self.frontier.shards:
                await _ask(shard)
            self._asked_at = time.monotonic()
        found: list[tuple[str, Result]] = []
        for number, shard in enumerate(self.frontier.shards):
            words = ("live", f"({self.places[number]}", "+", "COUNT", PAGE)
            for entry in await shard.command("XRANGE", *words):
                self.places[number] = entry[0].decode()
                found += [(self.place, result) for result in results_in(shard, [entry])]
        return found


async def _ask(shard: Shard, *, only_new: bool = False) -> bool:
    """Have items copied; whether nobody had asked before."""
    also = ("GET",) if only_new else ()
    return await shard.command("SET", "watched", 1, "EX", KEPT_S, *also) is None


async def _last(shard: Shard) -> str:
    newest = await shard.command("XREVRANGE", "live", "+", "-", "COUNT", 1)
    return newest[0][0].decode() if newest else NOWHERE


async def _is_cut_off(shard: Shard, place: str) -> bool:
    """Whether the stream begins later: then it is not known what came before. An entry that was
    read is there, unless the stream was cut."""
    if place == NOWHERE:
        return False
    return not await shard.command("XRANGE", "live", place, place)


async def note_waiting(frontier: Frontier, id: str, answer: bytes) -> None:
    """Somebody will come back for it. Never replaces an answer."""
    key = frontier.home.keys.key("answer", id)
    await frontier.server.command("SET", key, answer, "NX", "EX", WAITING_S)


async def keep_answer(frontier: Frontier, id: str, answer: bytes) -> None:
    key = frontier.home.keys.key("answer", id)
    await frontier.server.command("SET", key, answer, "EX", KEPT_S)


async def read_answers(frontier: Frontier, ids: Sequence[str]) -> list[bytes | None]:
    """In the order of the ids; None: nothing is known of it."""
    keys = [frontier.home.keys.key("answer", id) for id in ids]
    found: list[bytes | None] = await frontier.server.command("MGET", *keys)
    return found
