"""All shards of a job together: their numbers added up, and whether all of them are idle."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.wire import side_by_side
from skitter.model import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.shard import Shard


class Totals(NamedTuple):
    """The numbers of all shards, each of a moment of its own."""

    state: State
    counts: Counter[str]
    idle: bool  # nobody works on anything, and nothing more will be handed out


async def read_totals(shards: Sequence[Shard]) -> Totals:
    """Add up what the shards say.

    They are read one after the other, and a link may be on its way from one that is still to be
    read to one that was. So what looks idle is read again: where no ticket was drawn, no work came
    in or went out, and between the two readings all of them were idle at the same moment.
    """
    totals = await _read(shards)
    if totals.idle and len(shards) > 1:
        again = await _read(shards)
        still = again.counts["ticket"] == totals.counts["ticket"]
        totals = again._replace(idle=again.idle and still)
    return totals


async def _read(shards: Sequence[Shard]) -> Totals:
    parts = await side_by_side(shard.counts() for shard in shards)
    total = Counter[str]()
    for _, counts in parts:
        total.update(counts)
    is_spent = 0 < parts[0][1]["max_pages"] <= total["done"]
    is_cancelled = all(state == State.CANCEL for state, _ in parts)
    idle = not total["leased"] and (is_spent or is_cancelled or not left_in(total))
    return Totals(State(parts[0][0]), total, idle)


def left_in(counts: Counter[str]) -> int:
    """What waits to be handed out, not what its host's budget will never reach; and pages whose
    links are to be offered again."""
    waiting = counts["pending"] - counts["shelved"] + counts["delayed"]
    return waiting + counts["reopened"]
