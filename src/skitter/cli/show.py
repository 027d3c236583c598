"""See it at work: demo, bench."""

from __future__ import annotations

import typer

from skitter.demo.queue import run_demo


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel="See it at work")(demo)


def demo() -> None:
    """The queue at work: three workers, one of which is killed, and the audit."""
    run_demo()
