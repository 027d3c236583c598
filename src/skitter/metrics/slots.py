"""Time slots: which are kept, for how long, and which of them make up a chart."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

import msgspec


class Grain(NamedTuple):
    """How fine the slots are, and how long they are kept."""

    step_s: int
    keep_s: int


DAY_S: Final = 86_400
WEEK_S: Final = 7 * DAY_S
#: Slots of a counter per key.
SLOTS: Final = 360
COUNT_GRAINS: Final = (Grain(10, DAY_S), Grain(60, WEEK_S))
TIMING_GRAINS: Final = (Grain(60, DAY_S), Grain(3600, WEEK_S))
#: One slot for everything; it expires a week after the last write.
EVER: Final = Grain(0, WEEK_S)
TABLE_GRAINS: Final = (Grain(3600, 2 * DAY_S),)
MAX_POINTS: Final = 2000


class Window(msgspec.Struct, frozen=True):
    """The points of a chart: `count` of them from `start` on, `step_s` apart."""

    start: int
    step_s: int
    count: int
    grain: Grain  # of the counters
    timing_grain: Grain

    @property
    def starts(self) -> range:
        return range(self.start, self.start + self.count * self.step_s, self.step_s)


def window(now: float, *, since_s: float, points: int) -> Window:
    """The window that ends now; its newest point is not complete yet."""
    since_s = min(max(since_s, COUNT_GRAINS[0].step_s), WEEK_S)
    points = min(max(points, 1), MAX_POINTS)
    fine, coarse = COUNT_GRAINS
    is_fine = since_s <= fine.keep_s and since_s / points < coarse.step_s
    grain = fine if is_fine else coarse
    step = grain.step_s * ceil(since_s / (grain.step_s * points))
    last = int(now) // step * step
    count = ceil(since_s / step)
    timing = TIMING_GRAINS[0 if since_s <= TIMING_GRAINS[0].keep_s else 1]
    return Window(last - (count - 1) * step, step, count, grain, timing)
