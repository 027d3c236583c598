"""How a crawl went: the report at its end, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skitter.cli.output import say
from skitter.cli.progress import duration
from skitter.frontier.connection import redact

if TYPE_CHECKING:
    from skitter.cli.running import Plan
    from skitter.model import Stats


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a crawl went."""

    job: str
    finished: bool
    pages: int
    pages_now: int  # in this run
    seconds: float
    pages_per_second: float
    dead: int
    pending: int
    items_waiting: int
    out: str
    exit_code: int


def report_of(plan: Plan, stats: Stats, before: Stats, seconds: float, *, over: bool) -> Report:
    code = 0 if over else 130
    if over and plan.max_dead is not None and stats.dead > plan.max_dead:
        code = 1
    pages = stats.done - before.done
    return Report(
        job=stats.job,
        finished=over,
        pages=stats.done,
        pages_now=pages,
        seconds=round(seconds, 2),
        pages_per_second=round(pages / seconds, 1),
        dead=stats.dead,
        pending=stats.pending + stats.delayed + stats.leased,
        items_waiting=stats.items,
        out=redact(plan.out),
        exit_code=code,
    )


def show_report(report: Report, *, hints: bool) -> None:
    how = "finished" if report.finished else "stopped; run it again to go on"
    say(
        f"{report.job}: {how}. {report.pages_now:,} pages in {duration(report.seconds)} "
        f"({report.pages_per_second:,.0f}/s), {report.pages:,} in all."
    )
    if hints:
        say(f"items  {report.out}")
    if report.pending:
        say(f"left   {report.pending:,} URLs")
    if report.dead:
        say(f"dead   {report.dead:,} URLs" + f": `skitter dead list {report.job}`" * hints)
