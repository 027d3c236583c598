"""The menu of commands, and the one place that turns errors into exit codes.

Exit codes: 0 done, 1 a check found something or the frontier said no, 2 usage, 3 infrastructure,
130 interrupted.
"""

from __future__ import annotations

import os
import sys

import typer

from skitter.cli import check, crawl, crew, dead, jobs, load, look, new, server, show, steer
from skitter.cli.output import complain
from skitter.errors import SkitterError

app = typer.Typer(
    name="skitter",
    help="A distributed web-scraping system in which every URL is accounted for.",
    epilog="Commands that answer take --json; those that need a server take --redis URL, or "
    "SKITTER_REDIS_URL. Without it, an embedded server in .skitter/ starts by itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for group in (crawl, load, new, look, jobs, steer, crew, dead, check, server, show):
    group.add_to(app)


def run() -> None:
    """The entry point."""
    try:
        app()
    except SkitterError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has gone. Python would complain once more when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
