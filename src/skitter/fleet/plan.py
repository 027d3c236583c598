"""How many workers there should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: A worker is worth starting for this many requests.
REQUESTS_PER_WORKER = 100
#: Anyone who can write to the server can ask for workers; more than this would overload a machine.
ALWAYS_ALLOWED, PER_CORE = 32, 8
BUSY, IDLE = 0.9, 0.5  # share of the machine's CPU time


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The input of automatic scaling."""

    cores: int
    waiting: int  # requests pending, delayed or leased
    cpu_share: float  # 0 to 1, of the whole machine


def bounded(requested: int, cores: int) -> int:
    """A number from the server, capped at what this machine can run."""
    return min(requested, max(ALWAYS_ALLOWED, PER_CORE * cores))


def wanted_processes(requested: int | None, current: int, load: Load) -> int:
    """The number requested, if any; None means automatic, by queue depth and CPU.

    At most two per core, no more than the queue is worth, adding one at a time.
    """
    if requested is not None:
        return requested
    worth = max(1, -(-load.waiting // REQUESTS_PER_WORKER))
    limit = min(2 * load.cores, worth)
    if current > limit:
        return limit
    if current < limit and (current < load.cores or load.cpu_share < IDLE):
        return current + 1
    if current > load.cores and load.cpu_share > BUSY:
        return current - 1
    return max(1, current)


def restart_after_s(deaths_in_a_row: int) -> float:
    """A process that keeps dying is restarted at growing intervals."""
    return min(30.0, 0.5 * 2.0 ** min(deaths_in_a_row, 10)) if deaths_in_a_row else 0.0


#: The exit code for a mistake that a restart would only repeat.
USAGE = 2
#: Give up after this many failures in a row before the process ever reported.
GIVE_UP_AFTER = 5


def is_hopeless(code: int, *, heard: bool, in_a_row: int) -> bool:
    """Whether a process can never start. One that reported to the server has started: however it
    ends later, and however often, it does not end the fleet."""
    if heard or code < 0:
        return False
    return code == USAGE or (code == 1 and in_a_row >= GIVE_UP_AFTER)
