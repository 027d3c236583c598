"""How many workers there should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: A worker is worth starting for so many requests that may be fetched.
REQUESTS_PER_WORKER = 100
#: Whoever can write to the server can wish; more processes than this would end the machine.
LEAST_MOST, PER_CORE = 32, 8
BUSY, IDLE = 0.9, 0.5  # share of the machine's CPU time


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What an automatic plan looks at."""

    cores: int
    waiting: int  # requests pending, delayed or leased
    cpu_share: float  # 0 to 1, of the whole machine


def bounded_wish(wish: int | None, cores: int) -> int | None:
    """A wish that came from the server, as far as this machine can bear it."""
    return None if wish is None else min(wish, max(LEAST_MOST, PER_CORE * cores))


def wanted_processes(wish: int | None, current: int, load: Load) -> int:
    """The wish, if there is one; 0 or None means automatic: by queue depth and CPU.

    Never more than twice the cores, never more than the queue is worth, one at a time.
    """
    if wish:
        return wish
    worth = max(1, -(-load.waiting // REQUESTS_PER_WORKER))
    most = min(2 * load.cores, worth)
    if current > most:
        return most
    if current < most and (current < load.cores or load.cpu_share < IDLE):
        return current + 1
    if current > load.cores and load.cpu_share > BUSY:
        return current - 1
    return max(1, current)


def restart_after_s(deaths_in_a_row: int) -> float:
    """A process that keeps dying is started ever more slowly."""
    return min(30.0, 0.5 * 2.0 ** min(deaths_in_a_row, 10)) if deaths_in_a_row else 0.0


#: The exit code of a mistake that a repeat would only repeat.
USAGE = 2
#: An exit code without a signal, before anything was heard: so often in a row, and it is hopeless.
HOPELESS = 5


def cannot_begin(code: int, *, heard: bool, in_a_row: int) -> bool:
    """Whether a process failed to begin, and will again. One that was heard of had begun: however
    it ends later, and however often, it never ends the fleet."""
    if heard or code < 0:
        return False
    return code == USAGE or (code == 1 and in_a_row >= HOPELESS)
