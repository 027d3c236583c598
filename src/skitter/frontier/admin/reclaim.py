"""What a dead worker held, taken back by whoever saw it die."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.frontier.wire import side_by_side

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard

STEP = 500


async def forfeit(frontier: Frontier, client: str) -> int:
    """Take back every lease of a client, as if it had run out. Returns how many.

    Leases are not listed by holder: all are looked through, in small steps, as often as a worker
    dies. A lease that is missed runs out by itself.
    """
    return sum(await side_by_side(_forfeit_in(shard, client) for shard in frontier.shards))


async def _forfeit_in(shard: Shard, client: str) -> int:
    taken, cursor, prefix = 0, 0, f"{client}.".encode()
    while True:
        cursor, holders = await shard.server.command(
            "HSCAN", shard.keys.key("holder"), cursor, "COUNT", STEP
        )
        theirs = [part for pair in holders.items() if pair[1].startswith(prefix) for part in pair]
        if theirs:
            taken += await shard.call("forfeit", theirs)
        if not int(cursor):
            return taken
