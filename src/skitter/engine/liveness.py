"""Which processes run, and what those held that do not.

dead = await gone(frontier, await heartbeats(frontier))
for one, taken in await reclaim(frontier, dead): ...
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from skitter.frontier.admin.workers import leave, take_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.frontier.admin.workers import Heartbeat
    from skitter.frontier.frontier import Frontier


#: Three heartbeats (engine/pulse.py).
SILENT_S = 6.0


def is_running(pid: int) -> bool:
    """Whether this machine has such a process."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # or it is not the number of a process
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def is_here(one: Heartbeat) -> bool:
    """Whether it says that it runs on this machine. A container may have the same host name, so
    that its processes seem to be gone: ask how long they have been silent as well."""
    return one.host == socket.gethostname()


async def gone(
    frontier: Frontier,
    beats: Iterable[Heartbeat],
    *,
    silent_s: float = SILENT_S,
    elsewhere: bool = False,
) -> list[Heartbeat]:
    """Those that ended without a word; `elsewhere`: on other machines too, where silence is all
    there is to go by."""
    now = await frontier.server_time()
    return [
        one
        for one in beats
        if now - one.at > silent_s and (not is_running(one.pid) if is_here(one) else elsewhere)
    ]


async def reclaim(frontier: Frontier, dead: Iterable[Heartbeat]) -> list[tuple[Heartbeat, int]]:
    """Hand out again at once what they held, and not when their leases run out: who, how much."""
    taken = []
    for one in dead:
        taken.append((one, await take_back(frontier, one.name, seen=False)))
        await leave(frontier, one.name)
    return taken
