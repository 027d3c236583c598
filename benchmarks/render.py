"""A report as a table for stdout, progress as lines on stderr. All use of rich is here."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.report import Finding, Report


def report_table(report: Report, *, what: str) -> Group:
    """Everything a reader needs to judge the numbers."""
    table = Table(title=f"benchmarks {what}" + (" --quick" if report.quick else ""))
    for heading in ("measured", "goal", "here", "beside it", "ratio", "ok?"):
        table.add_column(heading, justify="right" if heading in ("here", "ratio") else "left")
    for _, group in groupby(report.findings, key=lambda finding: finding.name):
        table.add_section()
        for finding in group:
            table.add_row(*_cells(finding))
    machine = report.machine
    facts = (
        f"{machine.cpu}, {machine.cores} cores, load {machine.load} at the start; "
        f"Python {machine.python} with {machine.event_loop}; {machine.server}; "
        f"{machine.peer or 'no peer'}; {report.seconds:.0f} s"
    )
    return Group(table, Text(facts, style="dim"))


def _cells(finding: Finding) -> list[str]:
    beside = "" if finding.peer is None else f"{number(finding.peer)} {finding.unit}"
    return [
        finding.what,
        finding.goal,
        f"{number(finding.measured)} {finding.unit}",
        ", ".join(part for part in (beside, finding.beside) if part),
        "" if finding.ratio is None else f"{finding.ratio:.2f}",
        {True: "yes", False: "NO", None: ""}[finding.ok],
    ]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 100 else f"{value:.1f}"


@contextmanager
def progress_on_stderr() -> Iterator[Callable[[str], None]]:
    """Show progress: in place on a terminal, otherwise a line per step."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: console.print(text, highlight=False, soft_wrap=True)
        return
    with console.status("starting ...") as status:
        yield lambda text: status.update(text)
