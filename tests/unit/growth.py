"""How the cost of a function grows with the size of what it is given."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as long four times as much takes: about 4 if it is linear, 16 if quadratic.

    The least of several runs: others on the machine can only make a run longer.
    """
    return _least_s(work, 4 * size) / _least_s(work, size)


def _least_s(work: Callable[[int], object], size: int) -> float:
    return min(_once_s(work, size) for _ in range(7))


def _once_s(work: Callable[[int], object], size: int) -> float:
    started = process_time()
    work(size)
    return process_time() - started
