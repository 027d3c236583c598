"""What a running crawl looks like: one block on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skitter.cli.output import clean, plain, some
from skitter.frontier.eta import Bound, eta_s
from skitter.model import Stats

PLAIN_EVERY_S = 2.0
SAME_EVERY_S = 60.0  # a service that has nothing to do
WINDOW_S = 5.0


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

    @property
    def remaining(self) -> int:
        stats = self.stats
        known = stats.pending - stats.shelved + stats.delayed + stats.leased
        return known if self.max_pages is None else max(0, min(known, self.max_pages - stats.done))

    @property
    def eta(self) -> str:
        seconds = eta_s(self.remaining, self.rate, self.bound)
        return "-" if seconds is None else duration(seconds)


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, moment: Moment) -> None:
        if self._live:
            self._live.update(block(moment))
        elif not self.quiet:
            self._print(line(moment), time.monotonic())

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
        + (f"{stats.stored:,} stored, " if stats.stored else "")
        + (f"{stats.rejected:,} set aside, " if stats.rejected else "")
        + f"{some(moment.workers, 'worker')}, "
        f"ETA {moment.eta}" + "".join(f"; {clean(note)}" for note in moment.notes)
    )


def block(moment: Moment) -> Table:
    stats = moment.stats
    table = Table.grid(padding=(0, 3))
    for row in (
        ("pages", f"{stats.done:,}", "pending", f"{stats.pending:,}", "hosts", f"{stats.hosts:,}"),
        (
            "pages/s",
            f"{moment.rate:,.0f}",
            "in flight",
            f"{stats.leased:,}",
            "workers",
            f"{moment.workers}",
        ),
        (
            "retries",
            f"{stats.retried:,}",
            "delayed",
            f"{stats.delayed:,}",
            "dead",
            f"{stats.dead:,}",
        ),
    ):
        names = [Text(cell, style="dim") if i % 2 == 0 else cell for i, cell in enumerate(row)]
        table.add_row(*names)
    known = stats.done + stats.dead + moment.remaining
    bar = ProgressBar(total=max(1, known), completed=stats.done + stats.dead, width=60)
    foot = f"{duration(moment.elapsed_s)} so far, {moment.eta} to go"
    if moment.bound and moment.bound.delay_s > 0 and moment.bound.queued > 1:
        bound = moment.bound
        foot += f"; bound by {bound.host}: {bound.queued:,} URLs at {bound.delay_s:g} s"
    if stats.rejected:
        foot += f"; {some(stats.rejected, 'item')} set aside"
    if stats.blocked:
        foot += f"; {stats.blocked:,} answers were block pages"
    title = Text(f"{stats.job}", style="bold")
    if stats.state.value != "run":
        title.append(f"  {stats.state.value}", style="yellow")
    lines = Table.grid()  # a bar alone does not end its line
    notes = [Text(clean(note), style="yellow") for note in moment.notes]
    parts: list[RenderableType] = [title, table, bar, Text(foot, style="dim"), *notes]
    for part in parts:
        lines.add_row(part)
    return lines


def duration(seconds: float) -> str:
    """3 s, 4 min 10 s, 2 h 5 min, 3 d 4 h."""
    whole = round(seconds)
    for size, unit, small, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small} {part}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
