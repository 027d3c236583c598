"""Celery: its command line on our app, and crawls that its workers run.

Celery is an optional dependency, so it is imported on use.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skitter.cli.common import Directory, Redis, settings
from skitter.cli.output import print_progress
from skitter.errors import BadOption, UsageError
from skitter.redact import redact
from skitter.settings import ArchiveOptions, BrowserOptions
from skitter.settings.sources import OPTIONS
from skitter.trust import spelled
from skitter.valkey import hold

if TYPE_CHECKING:
    from skitter.crawl.plan import Plan
    from skitter.fleet.pool import WorkerPool
    from skitter.frontier.frontier import Frontier
    from skitter.settings import WorkerConfig


def celery(
    words: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="E.g. worker -c 4, inspect active, flower."),
    ],
    spiders: Annotated[
        list[str] | None,
        typer.Option("--spiders", help="Spiders a worker may run: 'spiders/*.py', shop.spiders."),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="NAME=DSN", help="The output that out='NAME' means."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A private host that may be fetched.")
    ] = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Run a command of Celery on Skitter's app, such as `worker -c 4`.

    Like `celery -A skitter.celery COMMAND`, but it also starts the embedded server if
    SKITTER_REDIS_URL is not set. Callers with the same SKITTER_SECRET may name any spider; for
    others, list the spiders that a worker may run.
    """
    where = settings(redis, directory)
    from skitter.celery.factory import check_words, default_app, run_command
    from skitter.celery.runtime import runtime_of

    check_words(words)
    os.environ["SKITTER_DIR"] = spelled(where.directory)
    if where.redis_url is not None:
        os.environ["SKITTER_REDIS_URL"] = where.redis_url
    os.environ |= _allowed(spiders or [], output or [], allow_host or [])
    with ExitStack() as stack:
        found = runtime_of(default_app()).where
        if found.redis_url is None:
            stack.enter_context(hold(found.directory, progress=print_progress))
        else:
            print_progress(f"on {redact(found.redis_url)}")
        code = run_command(words)
    raise typer.Exit(code)


def _allowed(spiders: list[str], outputs: list[str], hosts: list[str]) -> dict[str, str]:
    """As environment variables, which the app and its processes read."""
    named = {}
    for one in outputs:
        name, equals, dsn = one.partition("=")
        if not (equals and dsn and name.replace("-", "_").isidentifier()):
            raise BadOption("--output", name, "NAME=DSN, e.g. warehouse=postgresql://...")
        named[f"SKITTER_OUTPUT_{name.replace('-', '_').upper()}"] = dsn
    for variable, values in (("SKITTER_SPIDERS", spiders), ("SKITTER_ALLOW_HOSTS", hosts)):
        if values:
            named[variable] = ",".join([*filter(None, [os.environ.get(variable)]), *values])
    return named


def celery_pool(frontier: Frontier, plan: Plan) -> WorkerPool:
    """The pool whose Celery workers fetch the pages of the crawl."""
    from skitter.celery import make_app
    from skitter.celery.registry import JobSpec
    from skitter.celery.runtime import runtime_of
    from skitter.celery.scheduling import UNSIGNED, CeleryPool
    from skitter.worker.assembly import has_plain_pages

    runtime = runtime_of(make_app(plan.where))
    if runtime.where.redis_url != plan.where.redis_url:
        raise UsageError(
            "Celery's broker is on another server than this crawl: set SKITTER_REDIS_URL to the "
            "server that the workers use."
        )
    if runtime.secret is None:
        print_progress(UNSIGNED)
    target, config = _absolute(plan.target), _sent(plan)
    spec = JobSpec(
        job=frontier.job,
        target=target,
        browser=bool(plan.spider.renders),
        plain=bool(plan.spider.renders) and has_plain_pages(plan.spider),
        pumps=plan.processes,
        config=config,
    )
    return CeleryPool(
        runtime=runtime, frontier=frontier, spec=runtime.sign(spec), progress=print_progress
    )


def _sent(plan: Plan) -> WorkerConfig:
    """The config for the workers, without the secrets of our environment: anyone with access to the
    server could read them. The workers use those of their own environment."""
    origins = plan.config.origins
    ours = [
        one
        for one in OPTIONS.values()
        if one.table == "fetch" and one.declared.secret and origins[one.key] == one.variable
    ]
    hidden = {one.name: one.default for one in ours}
    fetch = replace(plan.worker.fetch, **hidden)
    # Workers use their own browsers, proxies and folders.
    config = replace(plan.worker, fetch=fetch, browser=BrowserOptions(), proxies=())
    return replace(config, archive=ArchiveOptions())


def _absolute(target: str) -> str:
    """A file by its absolute path: workers run in other directories."""
    file, colon, name = target.partition(".py:")
    path = Path(f"{file}.py" if colon else target)
    return f"{path.absolute()}{colon and ':'}{name}" if path.is_file() else target
