"""The display of a running crawl, and the report at its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skitter.cli.show.console import indented, plain
from skitter.cli.show.output import LINES, print_progress, say
from skitter.crawl.watch import Overview
from skitter.model import State
from skitter.observe.report import duration, excluded, kept_pages, some, waiting
from skitter.redact import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.observe.report import Report


PLAIN_EVERY_S = 2.0
SAME_EVERY_S = 60.0  # for a service with nothing to do
#: Terminals echo "^C" after the block. In the last column it would wrap to a line that Rich does
#: not know about, and the first line of the block would stay on the screen.
ECHO_WIDTH = 4


class Moment(NamedTuple):
    """All that is shown at one moment."""

    look: Overview
    errors: Sequence[str] = ()  # the last errors of handlers, with counts
    error_count: int = 0


@dataclass(slots=True)
class CrawlDisplay:
    """One block on a terminal, plain lines elsewhere.

    with CrawlDisplay(console) as display:
        display.show(moment)
    """

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
        """Print news if there is no block that shows it."""
        if not self._live and not self.quiet:
            self._write(text)

    def remark(self, text: str) -> None:
        """Print what a user should see also after the block is gone."""
        if not self.quiet:
            self._write(text, "yellow")

    def _write(self, text: str, style: str = "") -> None:
        if LINES.get() == "json" and not self.console.is_terminal:
            print_progress(text)
        else:
            self.console.print(plain(text, style))

    def _print(self, text: str, now: float) -> None:
        if now - self._printed_at > (SAME_EVERY_S if text == self._text else PLAIN_EVERY_S):
            self._text, self._printed_at = text, now
            self._write(text)


def _detail(text: str) -> None:
    """Of the line above."""
    if LINES.get() == "json":
        say(text)
    else:
        indented(text)


def line(moment: Moment) -> str:
    look = moment.look
    state = "" if look.state is State.RUNNING else f"{look.state.value}: "
    return (
        f"{state}{some(look.done, 'page')}, {speed(look.pages_per_s)}/s, {look.pending:,} pending, "
        f"{look.leased:,} in flight, "
        + (f"{look.delayed:,} delayed, " if look.delayed else "")
        + f"{look.dead:,} dead, "
        + (f"{look.blocked:,} blocked, " if look.blocked else "")
        + f"{some(look.stored, 'item')} stored, "
        + (f"{look.items:,} waiting, " if look.items else "")
        + (f"{look.rejected:,} rejected, " if look.rejected else "")
        + (f"{some(moment.error_count, 'handler error')}, " if moment.error_count else "")
        + f"{some(look.fetching, 'worker')}, "
        f"ETA {eta_of(look)}" + "".join(f"; {clean(note)}" for note in look.notes)
    )


def block(moment: Moment) -> Table:
    look = moment.look
    over = look.done + look.dead + look.excluded
    bar = ProgressBar(total=max(1, over + look.remaining), completed=over, width=60)
    title = plain(look.job, "bold")
    if look.state is not State.RUNNING:
        title.append(f"  {look.state.value}", style="yellow")
    lines = Table.grid()  # a bar does not end its own line
    parts: list[RenderableType] = [title, _numbers(look), bar, plain(_foot(moment), "dim")]
    parts += [plain(note, "yellow") for note in look.notes]
    parts += [plain(error, "red") for error in moment.errors]
    for part in parts:
        lines.add_row(part)
    return lines


def _numbers(look: Overview) -> Table:
    rate = speed(look.pages_per_s)
    rows = (
        (("pages", look.done), ("pending", look.pending), ("hosts", look.hosts)),
        (("pages/s", rate), ("in flight", look.leased), ("workers", look.fetching)),
        (("retries", look.retried), ("delayed", look.delayed), ("dead", look.dead)),
        (("items", look.stored), ("waiting", look.items), ("rejected", look.rejected)),
    )
    table = Table.grid(padding=(0, 3))
    for row in rows:
        cells = ((Text(name, style="dim"), _spelled(value)) for name, value in row)
        table.add_row(*(cell for pair in cells for cell in pair))
    return table


def _spelled(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def _foot(moment: Moment) -> str:
    look, bound = moment.look, moment.look.bound
    foot = f"{duration(look.elapsed_s or 0.0)} so far"
    if look.eta_s is not None:
        foot += f", {eta_of(look)} left for the URLs known so far"
        if is_growing(look):
            foot += f", which grow by {speed(look.found_per_s)}/s"
    if look.crawled and look.items:
        foot += f"; every page is done, {some(look.items, 'item')} left to store"
    if bound and bound.delay_s > 0 and bound.queued > 1:
        foot += f"; bound by {bound.host}: {bound.queued:,} URLs at {bound.delay_s:g} s"
    if look.blocked:
        foot += f"; {look.blocked:,} responses were block pages"
    if moment.error_count:
        foot += f"; {some(moment.error_count, 'handler error')}:"
    return foot


def eta_of(look: Overview) -> str:
    """The time left, if known; with a plus while more is found."""
    if look.eta_s is None:
        return "-"
    return duration(max(1.0, look.eta_s)) + "+" * is_growing(look)


def is_growing(look: Overview) -> bool:
    """Whether new URLs are a good part of the work."""
    return look.found_per_s > 0.05 * max(look.pages_per_s, 0.2)


def speed(rate: float) -> str:
    """With a decimal for slow, polite crawls: 0.3 pages a second is not 0."""
    return f"{rate:,.1f}" if 0 < rate < 10 else f"{rate:,.0f}"


REASONS_SHOWN = 5


def show_report(report: Report, *, hints: bool) -> None:
    in_all = f", {report.pages:,} in all" * (report.pages != report.pages_now)
    in_all += f", {report.cached:,} from the archive" * bool(report.cached)
    say(
        f"{report.job}: {report.end}. {some(report.pages_now, 'page')} in "
        f"{duration(report.seconds)} ({speed(report.pages_per_second)}/s){in_all}."
    )
    for one in report.bad:
        say(f"{'bad':<9}{one}" + f": `skitter quality {report.job}`" * hints)
    for one in report.idle:
        say(f"{'nothing':<9}{one}")
    for one in report.unmatched[:REASONS_SHOWN]:
        say(f"{'no match':<9}{one}")
    if (more := len(report.unmatched) - REASONS_SHOWN) > 0:
        say(f"{'':<9}and {some(more, 'other selector')}")
    for label, text in _report_rows(report, hints=hints):
        say(f"{label:<9}{text}")
    if report.dead:
        _show_reasons(report.dead_reasons)
    if report.vanished:
        say(f"{'lost':<9}{_vanished(report, hints=hints)}")
    if report.unhandled:
        say(f"{'held':<9}{_unhandled(report, hints=hints)}")
    if report.held:
        say(f"{'held':<9}{_held(report, hints=hints)}")


def _report_rows(report: Report, *, hints: bool) -> Iterator[tuple[str, str]]:
    """The rows of the report; `hints` adds commands that show more."""

    def see(command: str) -> str:
        return f": `skitter {command}`" if hints else ""

    warnings = see(f"logs {report.job} --level warning")
    yield from _output_rows(report, hints=hints)
    if report.revisits:
        found = (f"{number:,} {how}" for how, number in report.revisits.items())
        yield "revisits", ", ".join(found)
    if report.rejected:
        yield "rejected", some(report.rejected, "item") + see(f"rejected {report.job}")
    if report.items_waiting:
        yield "waiting", waiting(report.items_waiting)
    if report.undeclared:
        values = some(report.undeclared, "value")
        yield "left out", f"{values} of fields that the item type does not have{warnings}"
    if report.pending:
        yield "pending", some(report.pending, "URL")
    if report.blocked:
        yield "blocked", some(report.blocked, "block page")
    if report.capped:
        pages = some(report.capped, "page")
        yield "capped", f"{pages} with more items or links than the limit{warnings}"
    yield from _kept_out_rows(report, hints=hints)
    if report.dead:
        yield "dead", some(report.dead, "URL") + see(f"dead list {report.job}")


def _output_rows(report: Report, *, hints: bool) -> Iterator[tuple[str, str]]:
    updated = f" ({report.updated:,} updated)" * bool(report.updated)
    out = report.out.removeprefix("changes:")  # --only-changes
    if out == report.out:
        yield "items", f"{report.items:,}" + f" in {out}" * hints + updated
    else:
        yield "changes", f"{report.items:,}" + f" added to {out}" * hints
    if report.store and hints:
        yield "store", f"{report.store}, which {out} is written from"
    for output in report.also:
        rows = "rows" if output.rows is None else some(output.rows, "row")
        yield "also", f"{rows} in {output.out}" + f"; {output.lacks}" * bool(output.lacks)


def _held(report: Report, *, hints: bool) -> str:
    """Always the last line, as these URLs are missing."""
    first, *others = report.held
    and_others = f" and {some(len(others), 'other shape')}" * bool(others)
    held = f"{some(sum(report.held.values()), 'URL')} like {first}{and_others}"
    if not hints or report.shape_budget is None:
        return held
    more = f"`skitter set {report.job} --shape-budget {10 * report.shape_budget}`"
    return f"{held}, which may have no end; to fetch ten times as many, {more} and run it again"


def _unhandled(report: Report, *, hints: bool) -> str:
    first, *others = report.unhandled
    names = f"{first!r}" + f" and {some(len(others), 'other')}" * bool(others)
    held = f"{some(sum(report.unhandled.values()), 'URL')} for handler {names}, which no worker has"
    again = "; they are fetched when a spider that has it runs on this job"
    return held + again * hints


def _vanished(report: Report, *, hints: bool) -> str:
    """These may be pages that kill their workers; whatever they link to was not found."""
    first, *others = report.vanished
    and_others = f" and {some(len(others), 'other page')}" * bool(others)
    given_up = f"{first}{and_others}: given up, as workers vanished with it again and again"
    again = f"; to try again, `skitter dead retry {report.job} --reason vanished` and run it again"
    return given_up + again * hints


def _kept_out_rows(report: Report, *, hints: bool) -> Iterator[tuple[str, str]]:
    if said := excluded(report.kept_out, report.excluded):
        yield "excluded", said
    if report.downloads:
        megabytes = f"{report.downloaded_bytes / 10**6:,.1f} MB"
        yield "files", f"{some(report.downloads, 'file')} downloaded, {megabytes}"
    if report.archived or report.unarchived:
        kept = kept_pages(report.archived, report.archived_bytes, report.unarchived)
        why = f": `skitter logs {report.job} --level error`" if report.unarchived and hints else ""
        yield "archive", kept + why
    if report.files:
        yield "files", f"{some(report.files, 'link')} to files: --fresh --files all downloads them"
    if report.refused:
        yield "refused", f"{some(report.refused, 'link')} beyond max_depth, or while draining"


def _show_reasons(reasons: dict[str, int]) -> None:
    first = list(reasons.items())[:REASONS_SHOWN]
    width = max(len(f"{count:,}") for _, count in first)
    for reason, count in first:
        _detail(f"{count:>{width},} x {reason}")
    if more := len(reasons) - len(first):
        _detail(f"and {some(more, 'other reason')}")
