"""The report at the end of a crawl, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.cli.console import indented
from skitter.cli.output import say
from skitter.cli.progress import speed
from skitter.report import duration, excluded, some, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skitter.report import Report

REASONS_SHOWN = 5


def show_report(report: Report, *, hints: bool) -> None:
    in_all = f", {report.pages:,} in all" * (report.pages != report.pages_now)
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
    yield from _kept_out_rows(report)
    if report.dead:
        yield "dead", some(report.dead, "URL") + see(f"dead list {report.job}")


def _output_rows(report: Report, *, hints: bool) -> Iterator[tuple[str, str]]:
    updated = f" ({report.updated:,} updated)" * bool(report.updated)
    yield "items", f"{report.items:,}" + f" in {report.out}" * hints + updated
    if report.store and hints:
        yield "store", f"{report.store}, which {report.out} is written from"


def _held(report: Report, *, hints: bool) -> str:
    """Always the last line, as these URLs are missing."""
    first, *others = report.held
    and_others = f" and {some(len(others), 'other shape')}" * bool(others)
    held = f"{some(sum(report.held.values()), 'URL')} like {first}{and_others}"
    if not hints or report.shape_budget is None:
        return held
    more = f"`skitter set {report.job} --shape-budget {10 * report.shape_budget}`"
    return f"{held}, which may have no end; to fetch ten times as many, {more} and run it again"


def _vanished(report: Report, *, hints: bool) -> str:
    """These may be pages that kill their workers; whatever they link to was not found."""
    first, *others = report.vanished
    and_others = f" and {some(len(others), 'other page')}" * bool(others)
    given_up = f"{first}{and_others}: given up, as workers vanished with it again and again"
    again = f"; to try again, `skitter dead retry {report.job} --reason vanished` and run it again"
    return given_up + again * hints


def _kept_out_rows(report: Report) -> Iterator[tuple[str, str]]:
    if said := excluded(report.kept_out, report.excluded):
        yield "excluded", said
    if report.files:
        yield "files", f"{some(report.files, 'link')} to files: --fresh --files fetches them, too"
    if report.refused:
        yield "refused", f"{some(report.refused, 'link')} beyond max_depth, or while draining"


def _show_reasons(reasons: dict[str, int]) -> None:
    first = list(reasons.items())[:REASONS_SHOWN]
    width = max(len(f"{count:,}") for _, count in first)
    for reason, count in first:
        indented(f"{count:>{width},} x {reason}")
    if more := len(reasons) - len(first):
        indented(f"and {some(more, 'other reason')}")
