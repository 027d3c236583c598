"""A crawl from its seeds to its report: what `run`, `crawl`, `worker` and `demo` share."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from skitter.app import open_server
from skitter.cli.celery import celery_pool
from skitter.cli.child import LOAD_TO, WORKER
from skitter.cli.common import confirm
from skitter.cli.console import err
from skitter.cli.dashboard import environment_of
from skitter.cli.load import write_file
from skitter.cli.output import emit_json, print_error, print_progress
from skitter.cli.progress import CrawlDisplay, Moment
from skitter.cli.report import show_report
from skitter.crawl.course import Crawl, begin, what_fresh_discards
from skitter.crawl.plan import Engine, Plan
from skitter.crawl.reasons import HandlerErrors
from skitter.crawl.yields import too_many_errors
from skitter.errors import HELD, SkitterError
from skitter.fleet.children import Children
from skitter.fleet.output import Output
from skitter.fleet.pool import ProcessPool
from skitter.fleet.supervisor import Supervisor
from skitter.frontier.admin.control import set_state
from skitter.frontier.frontier import Frontier
from skitter.model import State, Stats
from skitter.report import report_of
from skitter.spider import Spider
from skitter.spider.hooks import run_hooks
from skitter.spider.source_line import trace
from skitter.watch import Watcher

ERRORS_SHOWN = 3


async def run_plan(plan: Plan, *, yes: bool = True) -> int:
    """`yes`: do not ask before --fresh discards something."""
    async with open_server(plan.where, progress=print_progress) as server:
        if plan.fresh and not yes and (lost := await what_fresh_discards(server, plan)):
            keep = " (--keep-rows keeps them.)" if " row" in lost else ""
            confirm(f"Discard {lost}?{keep}", what=f"--fresh discards {lost}")
        crawl = await begin(server, plan, print_progress)
        supervisor = supervisor_of(crawl.frontier, crawl.plan, plan.out)
        with CrawlDisplay(err, quiet=plan.as_json or plan.quiet) as display:
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
            result = replace(result, max_time_s=plan.max_time_s)
        report = report_of(result, await write_file(crawl.out), max_dead=plan.max_dead)
        if plan.quiet and report.exit_code == 0:
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


def supervisor_of(frontier: Frontier, plan: Plan, out: str) -> Supervisor:
    """Child processes run `skitter` with their configuration in the environment, as it may hold
    passwords, which anybody could read in `ps`."""
    # -P: `import protego` must not find a protego.py in the working directory.
    program = [sys.executable, "-P", "-m", "skitter"]
    of_us = [frontier.job, "--parent", str(os.getpid())]
    transform = ["--transform", plan.target] if plan.spider.transforms else []
    environment = environment_of(plan.where) | {LOAD_TO: out, WORKER: plan.worker.to_json()}
    output = Output.of(plan.where.directory, frontier.job)
    children = Children(frontier, environment, output, on_output=print_progress)
    return Supervisor(
        frontier,
        celery_pool(frontier, plan)
        if plan.engine is Engine.CELERY
        else ProcessPool(children, [*program, "work", *of_us]),
        children,
        loader_command=[*program, "load", *of_us, *transform] if out else None,
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
        look = replace(look, elapsed_s=time.monotonic() - self.crawl.began)
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
