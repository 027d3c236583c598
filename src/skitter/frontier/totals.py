"""All shards of a job: their counts added up, and whether all of them are idle."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from skitter.frontier.states import open_state
from skitter.frontier.wire import side_by_side
from skitter.model import State, Stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.shard import Shard

_COUNTS = [name for name, kind in Stats.__annotations__.items() if kind == "int"]


#: Prefix of counters of refused links, as in lua/refuse.lua.
REFUSED_BY = "refused by "


class Totals(NamedTuple):
    """The counts of all shards, each read at its own moment."""

    stats: Stats
    idle: bool  # nothing is leased, and nothing more will be
    tickets: int = 0  # drawn so far


async def read_totals(shards: Sequence[Shard]) -> Totals:
    """Add up the counts of the shards.

    They are not read at one moment, and a link may be moving from a shard that is yet to be read to
    one that was. So if all look idle, they are read again: if no ticket was drawn meanwhile, no
    work came in or went out, so all were idle at one moment between the two readings.
    """
    totals = await _read(shards)
    if totals.idle and len(shards) > 1:
        again = await _read(shards)
        totals = again._replace(idle=again.idle and again.tickets == totals.tickets)
    return totals


def _kept_out(total: Counter[str]) -> dict[str, int]:
    """Refused links by kind, most frequent first."""
    return {
        name.removeprefix(REFUSED_BY): number
        for name, number in total.most_common()
        if name.startswith(REFUSED_BY)
    }


async def _read(shards: Sequence[Shard]) -> Totals:
    parts = await side_by_side(shard.counts() for shard in shards)
    total = Counter[str]()
    for _, counts in parts:
        total.update(counts)
    job = shards[0].keys.job
    states = [open_state(job, word) for word, _ in parts]
    shown: dict[str, Any] = {name: total[name] for name in _COUNTS}
    stats = Stats(job=job, state=states[0], kept_out=_kept_out(total), **shown)
    is_spent = 0 < parts[0][1]["max_pages"] <= stats.done
    is_cancelled = all(state is State.CANCELLED for state in states)
    has_work = stats.remaining or stats.reopened or stats.due or stats.looks
    idle = not stats.leased and (is_spent or is_cancelled or not has_work)
    return Totals(stats, idle, total["ticket"])
