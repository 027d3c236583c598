"""python -m benchmarks SUITE: measure; exit code 1 if a goal is missed."""

from __future__ import annotations

import sys
from typing import Annotated

import click
from rich.console import Console

from benchmarks.crawl import CRAWL
from benchmarks.frontier import FRONTIER
from benchmarks.http import HTTP
from benchmarks.million import MILLION
from benchmarks.render import progress_on_stderr, report_table
from benchmarks.scrapy_node import SCRAPY
from benchmarks.suite import run_suite
from skitter.cli.parameters import Argument, Exit, Option, command
from skitter.errors import BadOption, SkitterError

SUITES = {
    "frontier": FRONTIER,
    "crawl": CRAWL,
    "scrapy": SCRAPY,
    "http": HTTP,
    "million": MILLION,
}


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
) -> None:
    """Benchmark against goals and other tools. Exit code 1 if a goal is missed."""
    if what not in SUITES:
        raise BadOption("the benchmark", what, "one of " + ", ".join(SUITES))
    with progress_on_stderr() as progress:
        report = run_suite(
            SUITES[what], quick=quick, only=only or (), with_peers=not no_peers, progress=progress
        )
    if as_json:
        click.echo(report.to_json())
    else:
        Console(highlight=False, soft_wrap=True).print(report_table(report, what=what))
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
