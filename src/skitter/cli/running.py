"""A crawl from its seeds to its report, by processes here or by Celery's workers.

`run`, `crawl`, `worker` and `demo` share it; `celery` is here, too. Celery is optional, so it is
imported on use.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec.structs import replace as structs_replace

from skitter.app import open_server
from skitter.cli.child import LOAD_TO, WORKER
from skitter.cli.common import SERVER, Where, confirm
from skitter.cli.dashboard import environment_of
from skitter.cli.outputs import write_file
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.show.console import err
from skitter.cli.show.output import emit_json, print_error, print_progress
from skitter.cli.show.progress import CrawlDisplay, Moment, show_report
from skitter.crawl.children import Children, ProcessPool
from skitter.crawl.findings import HandlerErrors, too_many_errors
from skitter.crawl.lifecycle import Crawl, begin, what_fresh_discards, write_outputs
from skitter.crawl.plan import Engine, Plan
from skitter.crawl.printed import Output
from skitter.crawl.supervisor import Supervisor
from skitter.crawl.watch import Watcher
from skitter.embedded import hold
from skitter.errors import HELD, BadOption, SkitterError, UsageError
from skitter.frontier.control import set_state
from skitter.frontier.frontier import Frontier
from skitter.model import State, Stats
from skitter.observe.report import report_of
from skitter.redact import redact
from skitter.settings import ArchiveOptions, BrowserOptions
from skitter.settings.sources import OPTIONS
from skitter.sinks.columns import json_text
from skitter.spider import Spider
from skitter.spider.hooks import run_hooks
from skitter.spider.source import trace
from skitter.trust import spelled

if TYPE_CHECKING:
    from skitter.crawl.children import WorkerPool
    from skitter.frontier.transport.connection import Server
    from skitter.observe.report import Report
    from skitter.settings import WorkerConfig
    from skitter.sinks import Destination


def celery(
    words: Annotated[
        list[str],
        Argument(metavar="COMMAND...", help="E.g. worker -c 4, inspect active, flower."),
    ],
    spiders: Annotated[
        list[str] | None,
        Option("--spiders", help="Spiders a worker may run: 'spiders/*.py', shop.spiders."),
    ] = None,
    output: Annotated[
        list[str] | None,
        Option("--output", metavar="NAME=DSN", help="The output that out='NAME' means."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, Option("--allow-host", help="A private host that may be fetched.")
    ] = None,
    where: Where = SERVER,
) -> None:
    """Run a command of Celery on Skitter's app, such as `worker -c 4`.

    Like `celery -A skitter.celery COMMAND`, but it also starts the embedded server if
    SKITTER_REDIS_URL is not set. Callers with the same SKITTER_SECRET may name any spider; for
    others, list the spiders that a worker may run.
    """
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
    raise Exit(code)


def _allowed(spiders: list[str], outputs: list[str], hosts: list[str]) -> dict[str, str]:
    """As environment variables, which the app and its processes read."""
    named = {}
    for output in outputs:
        name, equals, dsn = output.partition("=")
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
    from skitter.celery.jobs import JobSpec
    from skitter.celery.runtime import runtime_of
    from skitter.celery.scheduling import UNSIGNED, CeleryPool
    from skitter.engine.assembly import has_plain_pages

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
        option
        for option in OPTIONS.values()
        if option.table == "fetch"
        and option.declared.secret
        and origins[option.key] == option.variable
    ]
    hidden = {option.name: option.default for option in ours}
    fetch = replace(plan.worker.fetch, **hidden)
    # Workers use their own browsers, proxies and folders.
    config = replace(plan.worker, fetch=fetch, browser=BrowserOptions(), proxies=())
    return replace(config, archive=ArchiveOptions())


def _absolute(target: str) -> str:
    """A file by its absolute path: workers run in other directories."""
    file, colon, name = target.partition(".py:")
    path = Path(f"{file}.py" if colon else target)
    return f"{path.absolute()}{colon and ':'}{name}" if path.is_file() else target


ERRORS_SHOWN = 3


class Observer(Protocol):
    """Who started the crawl, if it was not a person: an agent."""

    async def opened(self, server: Server, /) -> None:
        """The server answers; nothing was begun or discarded yet."""

    async def begun(self, crawl: Crawl, stop: Callable[[], None], /) -> None:
        """The seeds are there."""

    def ended(self, report: Report, /) -> None: ...


async def run_plan(plan: Plan, *, yes: bool = True, observer: Observer | None = None) -> int:
    """`yes`: do not ask before --fresh discards something."""
    async with open_server(plan.where, progress=print_progress) as server:
        if plan.fresh and not yes and (lost := await what_fresh_discards(server, plan)):
            keep = " (--keep-rows keeps them.)" if " row" in lost else ""
            confirm(f"Discard {lost}?{keep}", what=f"--fresh discards {lost}")
        if observer:
            await observer.opened(server)
        crawl = await begin(server, plan, print_progress)
        supervisor = supervisor_of(crawl.frontier, crawl.plan, crawl.outs)
        if observer:
            await observer.begun(crawl, supervisor.stop)
        with CrawlDisplay(err, quiet=plan.as_json) as display:
            painter = _Painter(crawl, display, supervisor.stop)
            supervisor.on_tick = painter.paint
            with _stopped_in_time(supervisor, plan.max_time_s) as out_of_time:
                over = await supervisor.run()
            with suppress(SkitterError):  # `end` reports a server that is away
                await painter.tell()  # of what workers sent with their last heartbeat
        interrupted = supervisor.stopped_by is signal.SIGINT
        result = await crawl.end(
            over=over,
            interrupted=interrupted,
            bad=painter.paused_for,
            stopped_for=painter.stopped_for,
        )
        if out_of_time and not result.over:
            result = structs_replace(result, max_time_s=plan.max_time_s)
        async for trouble in crawl.put_away():
            print_error(trouble)
        report = report_of(result, *await write_outputs(crawl, write_file), max_dead=plan.max_dead)
        if observer:
            observer.ended(report)
        elif plan.quiet and report.exit_code == 0:
            pass
        elif plan.as_json:
            emit_json(report)
        else:
            show_report(report, hints=not plan.is_demo)
        hooks_failed = result.over and not await _run_finish_hooks(plan.spider, result.after)
    return 1 if hooks_failed and report.exit_code in (0, HELD) else report.exit_code


@contextmanager
def _stopped_in_time(supervisor: Supervisor, max_time_s: float | None) -> Iterator[list[bool]]:
    """Stop it after that time, if it is still running: then the list is not empty."""
    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(True)
        supervisor.stop()

    loop = asyncio.get_running_loop()
    timer = loop.call_later(max_time_s, stop) if max_time_s else None
    try:
        yield stopped
    finally:
        if timer:
            timer.cancel()


async def _run_finish_hooks(spider: Spider, stats: Stats) -> bool:
    """Run after the report, which a failing hook must not prevent. False: one failed."""
    try:
        await run_hooks(spider.hooks.finish, stats)
    except (Exception, SystemExit) as error:
        print_error(f"an on_finish hook failed: {trace(error)}")
        return False
    return True


def supervisor_of(frontier: Frontier, plan: Plan, outs: Sequence[Destination] = ()) -> Supervisor:
    """Child processes run `skitter` with their configuration in the environment, as it may hold
    passwords, which anybody could read in `ps`."""
    # -P: `import protego` must not find a protego.py in the working directory.
    program = [sys.executable, "-P", "-m", "skitter"]
    of_us = [frontier.job, "--parent", str(os.getpid())]
    transform = ["--transform", plan.target] if plan.spider.transforms else []
    named = {LOAD_TO: json_text([out.dsn for out in outs]), WORKER: plan.worker.to_json()}
    environment = environment_of(plan.where) | named
    output = Output.of(plan.where.directory, frontier.job)
    children = Children(frontier, environment, output, on_output=print_progress)
    return Supervisor(
        frontier,
        celery_pool(frontier, plan)
        if plan.engine is Engine.CELERY
        else ProcessPool(children, [*program, "work", *of_us]),
        children,
        loader_command=[*program, "load", *of_us, *transform] if outs else None,
        workers=plan.processes,
        one_first=plan.config.workers.processes == "cores",
        keep_alive=plan.keep_alive,
    )


@dataclass(slots=True)
class _Painter:
    """Displays what the supervisor reports. Pauses a crawl whose quality drops, if configured, and
    stops one whose handlers fail."""

    crawl: Crawl
    display: CrawlDisplay
    stop: Callable[[], None]
    paused_for: list[str] = field(default_factory=list)
    stopped_for: str = ""
    errors: HandlerErrors = field(default_factory=HandlerErrors)
    watcher: Watcher = field(init=False)

    def __post_init__(self) -> None:
        server = self.crawl.frontier.server
        self.watcher = Watcher(server, find_bad=self._look_at_quality, closely_at_once=False)

    async def paint(self, stats: Stats) -> None:
        look = await self.watcher.look_at(self.crawl.frontier, stats)
        await self.tell()
        await self._look_at_errors()
        look = structs_replace(look, elapsed_s=time.monotonic() - self.crawl.began)
        lines, count = self.errors.lines(ERRORS_SHOWN), self.errors.counts.total()
        self.display.show(Moment(look, lines, count))

    async def tell(self) -> None:
        """Announce errors of kinds that were not seen before."""
        for error in await self.errors.read(self.crawl.frontier, since_s=self.crawl.since_s):
            self.display.announce(error)
        for remark in self.errors.remarks():
            self.display.remark(remark)

    async def _look_at_errors(self) -> None:
        if not self.errors.counts or self.stopped_for:
            return
        self.stopped_for = too_many_errors(
            await self.crawl.yields(),
            self.errors.counts,
            limit=self.crawl.plan.max_errors,
            watched=self.display.console.is_terminal,
        )
        if self.stopped_for:
            self.stop()

    async def _look_at_quality(self, _: Frontier) -> list[str]:
        bad = await self.crawl.find_bad()
        if bad and self.crawl.plan.config.quality.on_bad == "pause" and not self.paused_for:
            self.paused_for = bad
            await set_state(self.crawl.frontier, State.PAUSED)
            self.stop()
        return bad
