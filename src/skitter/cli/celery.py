"""Celery: its command line on our app, and crawls that its workers run.

Nothing of Celery is imported before somebody asks for it: it is an extra.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skitter.cli.common import Directory, Redis, settings
from skitter.cli.output import tell
from skitter.fleet.supervisor import Supervisor
from skitter.redact import redact
from skitter.valkey import hold

if TYPE_CHECKING:
    from skitter.cli.running import Plan

PANEL = "Crawl"


def add_to(app: typer.Typer) -> None:
    passing = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(rich_help_panel=PANEL, context_settings=passing)(celery)


def celery(
    words: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="worker -c 4, inspect active, flower")
    ],
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Celery's own command line on Skitter's app: `skitter celery worker -c 4`.

    The embedded server runs as long as this does; otherwise it is the same as
    `celery -A skitter.celery COMMAND` with SKITTER_REDIS_URL set.
    """
    where = settings(redis, directory)
    from skitter.celery.command import run_command

    with ExitStack() as stack:
        if where.redis_url is None:
            stack.enter_context(hold(where.directory, progress=tell))
            os.environ["SKITTER_DIR"] = str(where.directory.absolute())
        else:
            os.environ["SKITTER_REDIS_URL"] = where.redis_url
            tell(f"on {redact(where.redis_url)}")
        code = run_command(words)
    raise typer.Exit(code)


def with_pumps(supervisor: Supervisor, plan: Plan) -> Supervisor:
    """The same crawl, fetched by Celery workers."""
    from skitter.celery import make_app
    from skitter.celery.charges import Charge
    from skitter.celery.engine import Pumping

    charge = Charge(
        job=supervisor.frontier.job,
        target=_everywhere(plan.target),
        pumps=plan.workers,
        concurrency=plan.concurrency,
        obey_robots=not plan.ignore_robots,
        allow=tuple(sorted(plan.allow)),
    )
    return Pumping(
        supervisor.frontier,
        worker_command=[],
        loader_command=supervisor.loader_command,
        workers=plan.workers,
        environment=supervisor.environment,
        output=supervisor.output,
        on_output=supervisor.on_output,
        keep_alive=plan.keep_alive,
        app=make_app(plan.where),
        charge=charge,
        tell=tell,
    )


def _everywhere(target: str) -> str:
    """A file by its whole path: workers run in folders of their own."""
    file, colon, name = target.partition(".py:")
    path = Path(f"{file}.py" if colon else target)
    return f"{path.absolute()}{colon and ':'}{name}" if path.is_file() else target
