"""Contenders take turns, round by round; rows compare their best results."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from benchmarks.report import Finding

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from benchmarks.ground import Ground
    from benchmarks.peers import Peer


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """What contenders are compared by."""

    unit: str
    best: Callable[[Sequence[float]], float] = max
    #: Whether the ratio is theirs to ours: how many times less we need.
    inverse: bool = False
    name: str = ""


Sample = dict[Figure, list[float]]


@dataclass(frozen=True, slots=True)
class Goal:
    """What the ratio, or the measured value itself, must be."""

    words: str
    least: float = -math.inf
    most: float = math.inf
    of: Literal["ratio", "measured"] = "ratio"


def times(least: float | None) -> Goal | None:
    """A multiple of the other's result; None: shown for honesty, without a goal."""
    return None if least is None else Goal(f"{least:g} times", least=least)


@dataclass(slots=True)
class Contender:
    """One of those that take turns, and its results so far."""

    name: str
    run: Callable[[], Awaitable[Sample]]
    rounds: int = 1_000  # a slow one may run fewer
    fresh: bool = True  # start each turn with an empty server
    series: defaultdict[Figure, list[float]] = field(default_factory=lambda: defaultdict(list))

    def best(self, figure: Figure) -> float:
        return figure.best(self.series[figure])


async def take_turns(
    ground: Ground, contenders: Sequence[Contender], *, part: str, rounds: int
) -> None:
    """Alternate round by round, so that noise and warm-up are shared. Leaves the server empty."""
    for number in range(1, rounds + 1):
        for one in contenders:
            last = min(rounds, one.rounds)
            if number > last:
                continue
            ground.progress(f"{part}: round {number} of {last}, {one.name}")
            if one.fresh:
                await ground.clear()
            await ground.quiet()
            for figure, values in (await one.run()).items():
                one.series[figure] += values
    await ground.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Our figure beside theirs, or alone."""

    what: str
    figure: Figure
    ours: Contender
    theirs: Contender | None = None
    beside: str = ""  # what it is compared with, and how that was measured
    goal: Goal | None = None

    def finding(self, part: str) -> Finding:
        measured, ratio = self.ours.best(self.figure), self._ratio()
        return Finding(
            name=part,
            what=self.what,
            unit=self.figure.unit,
            measured=measured,
            beside=self.beside,
            peer=self.theirs.best(self.figure) if self.theirs else None,
            ratio=ratio,
            goal=self.goal.words if self.goal else "",
            ok=self._judge(measured, ratio),
            rounds=self.ours.series[self.figure],
            peer_rounds=self.theirs.series[self.figure] if self.theirs else [],
        )

    def _ratio(self) -> float | None:
        if self.theirs is None:
            return None
        ours, theirs = self.ours.best(self.figure), self.theirs.best(self.figure)
        return theirs / ours if self.figure.inverse else ours / theirs

    def _judge(self, measured: float, ratio: float | None) -> bool | None:
        value = measured if self.goal and self.goal.of == "measured" else ratio
        if self.goal is None or value is None:
            return None
        return self.goal.least <= value <= self.goal.most


@dataclass(frozen=True, kw_only=True)
class Part(ABC):
    """One measurement of a suite. Its fields set the sizes."""

    name: ClassVar[str]
    peers: tuple[Peer, ...] = ()

    @abstractmethod
    async def measure(self, ground: Ground) -> list[Row]:
        """Let the contenders take turns."""
