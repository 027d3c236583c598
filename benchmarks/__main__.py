"""python -m benchmarks frontier|crawl|scrapy: measure and show; exit code 1 if a goal is missed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import progress_on_stderr, report_table, run_frontier
from benchmarks.crawl import run_crawl
from benchmarks.scrapy_node import run_scrapy
from skitter.errors import BadOption, SkitterError


def bench(
    what: Annotated[str, typer.Argument(metavar="frontier|crawl|scrapy")] = "frontier",
    quick: Annotated[bool, typer.Option("--quick", help="A twentieth of the work.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Parts to run. frontier: speed, memory, lease; crawl: speed, celery, scale, "
            "memory, profile."
        ),
    ] = None,
    no_peers: Annotated[
        bool, typer.Option("--no-peers", help="Do not measure other tools.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Benchmark against goals and other tools. Exit code 1 if a goal is missed."""
    parts, peers = only or (), not no_peers
    with progress_on_stderr() as tell_progress:
        if what == "frontier":
            report = run_frontier(quick=quick, only=parts, with_peer=peers, tell=tell_progress)
        elif what == "crawl":
            report = run_crawl(quick=quick, only=parts, with_peers=peers, tell=tell_progress)
        elif what == "scrapy":
            report = run_scrapy(quick=quick, with_peers=peers, tell=tell_progress)
        else:
            raise BadOption("benchmarks", what, "frontier, crawl or scrapy")
    if as_json:
        typer.echo(report.to_json())
    else:
        Console(highlight=False, soft_wrap=True).print(report_table(report, what=what))
    if not report.ok:
        raise typer.Exit(1)


def main() -> None:
    """The command; an error of ours is one sentence on stderr and its exit code."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(bench)
    try:
        app(prog_name="python -m benchmarks")
    except SkitterError as error:
        typer.echo(f"benchmarks: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
