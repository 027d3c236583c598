"""What charts show, read once for all who look at the same one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from skitter.frontier.metrics import History, read_history

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.frontier.frontier import Frontier

LONGEST_S = 5.0


class Chart(NamedTuple):
    """Which one: equal ones share what was read."""

    job: str
    names: tuple[str, ...]
    since_s: float
    points: int


@dataclass(slots=True)
class Charts:
    """Keeps each for a tenth of its step: the newest point changes, and everybody sees it soon."""

    clock: Callable[[], float] = time.monotonic
    _reading: dict[Chart, asyncio.Task[History]] = field(default_factory=dict)
    _read: dict[Chart, tuple[float, History]] = field(default_factory=dict)  # until when

    async def read(self, frontier: Frontier, chart: Chart) -> History:
        until, history = self._read.get(chart, (0.0, None))
        if history is not None and self.clock() < until:
            return history
        task = self._reading.get(chart)
        if task is None:
            task = self._reading[chart] = asyncio.create_task(self._renew(frontier, chart))
            task.add_done_callback(lambda _: self._reading.pop(chart))
        return await asyncio.shield(task)  # one who leaves does not end it for the others

    async def _renew(self, frontier: Frontier, chart: Chart) -> History:
        history = await read_history(
            frontier, list(chart.names), since_s=chart.since_s, points=chart.points
        )
        now = self.clock()
        kept = {one: found for one, found in self._read.items() if now < found[0]}
        self._read = kept | {chart: (now + min(LONGEST_S, history.step_s / 10), history)}
        return history
