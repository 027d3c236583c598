"""python -m benchmarks SUITE: measure; exit code 1 if a goal is missed."""

from __future__ import annotations

import sys
from typing import Annotated

import click
from rich.console import Console

from benchmarks.record import write_record
from benchmarks.render import progress_on_stderr, report_table
from benchmarks.suite import run_suite
from benchmarks.suites import SUITES
from skitter.cli.parameters import Argument, Exit, Option, command
from skitter.errors import BadOption, SkitterError


def _parts(name: str) -> str:
    return f"{name}: " + ", ".join(part.name for part in SUITES[name].full)


def bench(
    what: Annotated[str, Argument(metavar="frontier|crawl|scrapy|http|million")] = "frontier",
    quick: Annotated[bool, Option("--quick", help="A twentieth of the work.")] = False,
    only: Annotated[
        list[str] | None,
        Option(help="Parts to run. " + "; ".join(map(_parts, SUITES))),
    ] = None,
    no_peers: Annotated[bool, Option("--no-peers", help="Do not measure other tools.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    keep: Annotated[
        bool, Option("--keep", help="Write the figures to docs/benchmarks.json, for `make docs`.")
    ] = False,
) -> None:
    """Benchmark against goals and other tools. Exit code 1 if a goal is missed."""
    if what not in SUITES:
        raise BadOption("the benchmark", what, "one of " + ", ".join(SUITES))
    if keep and (quick or no_peers):
        raise BadOption("--keep", "part of the work", "used without --quick and --no-peers")
    with progress_on_stderr() as progress:
        report = run_suite(
            SUITES[what], quick=quick, only=only or (), with_peers=not no_peers, progress=progress
        )
    if as_json:
        click.echo(report.to_json())
    else:
        Console(highlight=False, soft_wrap=True).print(report_table(report, what=what))
    if keep:
        write_record(what, report)
    if not report.ok:
        raise Exit(1)


def main() -> None:
    """Run the command; print our own errors as one sentence on stderr, with their exit code."""
    try:
        command(bench, "bench").main(prog_name="python -m benchmarks")
    except SkitterError as error:
        click.echo(f"benchmarks: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
