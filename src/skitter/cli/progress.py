"""What a running crawl looks like: one block on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skitter.cli.output import clean, plain
from skitter.frontier.admin.eta import Bound, eta_s
from skitter.model import State, Stats
from skitter.report import some

PLAIN_EVERY_S = 2.0
SAME_EVERY_S = 60.0  # a service that has nothing to do
WINDOW_S = 5.0
#: Terminals echo "^C" behind the block. In the last column it would begin a line that Rich does not
#: know of, and the first line of the block would be left behind.
ECHO_WIDTH = 4


@dataclass(slots=True)
class Rate:
    """Pages per second over the last few seconds."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def update(self, done: int, now: float) -> float:
        self._seen.append((now, done))
        while now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first) if last > first else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """All that is shown at one moment."""

    stats: Stats
    rate: float
    workers: int
    elapsed_s: float
    bound: Bound | None = None
    max_pages: int | None = None
    notes: Sequence[str] = ()  # what stands in the way
    errors: Sequence[str] = ()  # of handlers: the last ones, counted
    error_count: int = 0

    @property
    def remaining(self) -> int:
        known = self.stats.remaining
        if self.max_pages is None:
            return known
        return max(0, min(known, self.max_pages - self.stats.done))

    @property
    def eta(self) -> str:
        """The time left. In the first seconds of a crawl there is no way to know it."""
        goes_on = self.stats.state in (State.RUNNING, State.DRAINING) and self.elapsed_s >= WINDOW_S
        seconds = eta_s(self.remaining, self.rate, self.bound)
        if not goes_on or not self.remaining or seconds is None:
            return "-"
        return duration(max(1.0, seconds))


@dataclass(slots=True)
class CrawlDisplay:
    """`with CrawlDisplay(console) as display: display.show(moment)`"""

    console: Console
    quiet: bool = False
    _live: Live | None = None
    _text: str = ""
    _printed_at: float = 0.0

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self.quiet:
            self._live = Live(console=self.console, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, moment: Moment) -> None:
        if self._live:
            self._live.update(Constrain(block(moment), self.console.width - ECHO_WIDTH))
        elif not self.quiet:
            self._print(line(moment), time.monotonic())

    def announce(self, text: str) -> None:
        """Something new, where there is no block that shows it."""
        if not self._live and not self.quiet:
            self.console.print(plain(text))

    def _print(self, text: str, now: float) -> None:
        if now - self._printed_at > (SAME_EVERY_S if text == self._text else PLAIN_EVERY_S):
            self._text, self._printed_at = text, now
            self.console.print(plain(text))


def line(moment: Moment) -> str:
    stats = moment.stats
    return (
        f"{some(stats.done, 'page')}, {moment.rate:,.0f}/s, {stats.pending:,} pending, "
        f"{stats.leased:,} in flight, {stats.dead:,} dead, "
        + (f"{stats.blocked:,} blocked, " if stats.blocked else "")
        + f"{some(stats.stored, 'item')} stored, "
        + (f"{stats.items:,} waiting, " if stats.items else "")
        + (f"{stats.rejected:,} rejected, " if stats.rejected else "")
        + (f"{some(moment.error_count, 'handler error')}, " if moment.error_count else "")
        + f"{some(moment.workers, 'worker')}, "
        f"ETA {moment.eta}" + "".join(f"; {clean(note)}" for note in moment.notes)
    )


def block(moment: Moment) -> Table:
    stats = moment.stats
    known = stats.done + stats.dead + moment.remaining
    bar = ProgressBar(total=max(1, known), completed=stats.done + stats.dead, width=60)
    title = plain(stats.job, "bold")
    if stats.state is not State.RUNNING:
        title.append(f"  {stats.state.value}", style="yellow")
    lines = Table.grid()  # a bar alone does not end its line
    parts: list[RenderableType] = [title, _numbers(moment), bar, plain(_foot(moment), "dim")]
    parts += [plain(note, "yellow") for note in moment.notes]
    parts += [plain(error, "red") for error in moment.errors]
    for part in parts:
        lines.add_row(part)
    return lines


def _numbers(moment: Moment) -> Table:
    stats = moment.stats
    rows = (
        (("pages", stats.done), ("pending", stats.pending), ("hosts", stats.hosts)),
        (("pages/s", moment.rate), ("in flight", stats.leased), ("workers", moment.workers)),
        (("retries", stats.retried), ("delayed", stats.delayed), ("dead", stats.dead)),
        (("items", stats.stored), ("waiting", stats.items), ("rejected", stats.rejected)),
    )
    table = Table.grid(padding=(0, 3))
    for row in rows:
        cells = ((Text(name, style="dim"), f"{value:,.0f}") for name, value in row)
        table.add_row(*(cell for pair in cells for cell in pair))
    return table


def _foot(moment: Moment) -> str:
    stats, bound = moment.stats, moment.bound
    foot = f"{duration(moment.elapsed_s)} so far, {moment.eta} to go"
    if stats.crawled and stats.items:
        foot += f"; every page is done, {some(stats.items, 'item')} left to store"
    if bound and bound.delay_s > 0 and bound.queued > 1:
        foot += f"; bound by {bound.host}: {bound.queued:,} URLs at {bound.delay_s:g} s"
    if stats.blocked:
        foot += f"; {stats.blocked:,} responses were block pages"
    if moment.error_count:
        foot += f"; {some(moment.error_count, 'handler error')}:"
    return foot


def duration(seconds: float) -> str:
    """3 s, 4 min 10 s, 2 h 5 min, 3 d 4 h."""
    whole = round(seconds)
    for size, unit, small, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small} {part}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
