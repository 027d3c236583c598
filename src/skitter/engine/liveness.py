"""Which processes run, and what the dead ones held.

dead = await find_dead(frontier, await heartbeats(frontier))
for one, taken in await reclaim(frontier, dead): ...
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from skitter.frontier.admin.workers import take_back

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
    except (ProcessLookupError, OverflowError):  # or it cannot be a pid
        return False
    except PermissionError:
        pass  # another user's
    return True


def is_here(one: Heartbeat) -> bool:
    """Whether it claims to run on this machine. A container may have the same host name, and then
    its processes seem to be gone: also check how long they have been silent."""
    return one.host == socket.gethostname()


async def find_dead(
    frontier: Frontier,
    beats: Iterable[Heartbeat],
    *,
    silent_s: float = SILENT_S,
    elsewhere: bool = False,
) -> list[Heartbeat]:
    """Those that died without signing off; `elsewhere`: on other machines too, where silence is
    the only evidence."""
    now = await frontier.server_time()
    return [
        one
        for one in beats
        if now - one.at > silent_s and (not is_running(one.pid) if is_here(one) else elsewhere)
    ]


async def reclaim(frontier: Frontier, dead: Iterable[Heartbeat]) -> list[tuple[Heartbeat, int]]:
    """Requeue what they held at once, not when the leases expire. Returns who held how much."""
    return [(one, await take_back(frontier, one.name, seen=False)) for one in dead]
