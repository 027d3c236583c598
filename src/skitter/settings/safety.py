"""The smaller tables of a job: safety, visits.

How much may fail before a result is lost.

Whether pages are revisited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from skitter.errors import BadOption
from skitter.settings.option import Table, option


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety(Table):
    """How safe URLs and results must be before workers consider them stored."""

    durability: Literal["primary", "replicated"] = option(
        "primary",
        "When URLs and results count as stored: when the primary has them, or when a replica "
        "has them too.",
        flag="--durability",
        in_lua=False,
    )

    @property
    def replicated(self) -> bool:
        return self.durability == "replicated"


DAY_S = 86_400.0


def _interval(default: float, help: str) -> Any:
    return option(default, help, low=1, high=3650 * DAY_S, in_lua=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits(Table):
    """Whether and when pages are revisited: the more often they change, the sooner."""

    revisit: bool = option(
        False,
        "Visit pages again; handlers run on those that have changed.",
        flag="--revisit/--no-revisit",
    )
    revisit_prune: bool = option(
        False,
        "After a revisit, remove rows that the page no longer yields. Only in databases.",
        flag="--revisit-prune/--no-revisit-prune",
        in_lua=False,
    )
    revisit_after_s: float = _interval(DAY_S, "Seconds until a page is visited a second time.")
    revisit_min_s: float = _interval(3600.0, "Shortest time between visits, in seconds.")
    revisit_max_s: float = _interval(14 * DAY_S, "Longest time between visits, in seconds.")

    def __post_init__(self) -> None:
        Table.__post_init__(self)
        if self.revisit_min_s > self.revisit_max_s:
            raise BadOption("revisit_min_s", self.revisit_min_s, "at most revisit_max_s")

    def interval_s(self, last_s: float | None, *, changed: bool) -> float:
        """To the next visit; `last_s`: the last interval. As StormCrawler's AdaptiveScheduler."""
        if last_s is None:
            wanted = self.revisit_after_s
        elif changed:
            wanted = 0.5 * last_s + 0.5 * self.revisit_min_s
        else:
            wanted = 1.5 * last_s
        return min(self.revisit_max_s, max(self.revisit_min_s, wanted))
