"""A crawl from its seeds to its report: what `run`, `crawl`, `worker` and `demo` share."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from skitter.app import Overruled, open_crawl, open_server
from skitter.cli.celery import celery_pool
from skitter.cli.common import WORKER
from skitter.cli.load import LOAD_TO, write_file
from skitter.cli.output import complain, emit_json, err, some, tell
from skitter.cli.plan import Engine, Plan
from skitter.cli.progress import CrawlDisplay, Moment, Rate
from skitter.cli.reasons import HandlerErrors, dead_reasons
from skitter.cli.report import Went, report_of, show_report
from skitter.errors import JobMissing, ServerUnreachable, SpiderError
from skitter.fleet.children import Children
from skitter.fleet.output import Output
from skitter.fleet.pool import ProcessPool
from skitter.fleet.supervisor import Supervisor
from skitter.frontier.admin.dead import dead_letters
from skitter.frontier.admin.eta import Bound, slowest_host
from skitter.frontier.admin.jobs import open_job, purge_job
from skitter.frontier.admin.warnings import find_warnings
from skitter.frontier.connection import Server
from skitter.frontier.frontier import Frontier
from skitter.loading import open_destination
from skitter.model import State, Stats
from skitter.redact import redact
from skitter.settings import Settings
from skitter.sinks import Destination, SinkBusy
from skitter.spider import Spider
from skitter.spider.seeding import offer_seeds
from skitter.spider.source_line import trace
from skitter.spider.spider import run_hooks

ETA_EVERY_S = 3.0
LAST_LOOK_S = 3.0
#: How long the output is waited for while another process writes it, and how often it is tried.
LETS_GO_S, LOOK_AGAIN_S = 15.0, 0.2
ERRORS_SHOWN = 3


async def run_plan(plan: Plan) -> int:
    began = time.monotonic()
    async with open_server(plan.where, progress=tell) as server:
        frontier = await open_plan(server, plan)
        before = await frontier.stats()
        out = Destination(plan.out, frontier.job, plan.where.directory)
        lost = before.stored if out.is_missing else 0
        await _try_destination(frontier, out)
        if lost:
            gone = f"{redact(out.store)} is gone, and {some(lost, 'item')} with it"
            tell(f"{gone}: --fresh crawls again.")
        plan = replace(plan, allow=(*plan.allow, *await offer_seeds(frontier, plan.spider)))
        _check_begun(plan, now := await frontier.stats())
        if before.crawled and now.crawled:
            tell(f"{frontier.job} was finished before, and the seeds are known: see --fresh.")
        supervisor = supervisor_of(frontier, plan, plan.out)
        with CrawlDisplay(err, quiet=plan.as_json) as display:
            painter = _Painter(frontier, display, began, await frontier.server_time())
            supervisor.on_tick = painter.paint
            over = await supervisor.run()
        stats = await _last_look(frontier)
        went = Went(
            before,
            stats,
            time.monotonic() - began,
            over=(over or stats.finished) and stats.state is not State.CANCELLED,
            interrupted=supervisor.stopped_by is signal.SIGINT,
            max_pages=frontier.options.limits.max_pages,
            why_dead="" if stats.done else await _first_dead(frontier),
            lost=lost,
            dead_reasons=await dead_reasons(frontier) if stats.dead else {},
        )
        written = await write_file(out)
        report = report_of(plan, went, written)
        if plan.as_json:
            emit_json(report)
        else:
            show_report(report, hints=not plan.is_demo)
        hooks_failed = went.over and not await _run_finish_hooks(plan.spider, stats)
    return report.exit_code or int(hooks_failed)


async def _try_destination(frontier: Frontier, out: Destination) -> None:
    """A place that takes no items is told now, not by a loader that keeps dying. The loader of a
    crawl that was just killed needs a moment to notice."""
    give_up_at, told = time.monotonic() + LETS_GO_S, False
    while True:
        try:
            async with open_destination(frontier, out):
                return
        except SinkBusy as busy:
            if time.monotonic() > give_up_at:
                raise
            if not told:
                tell(f"{str(busy).partition(':')[0]}: waiting for it to end.")
            told = True
        await asyncio.sleep(LOOK_AGAIN_S)


def _check_begun(plan: Plan, stats: Stats) -> None:
    if stats.seen or stats.fed or plan.keep_alive:
        return
    raise SpiderError(
        f"spider {plan.spider.name!r} has no start URL, so there is nothing to fetch: give it one, "
        f"or `skitter push {plan.job} URL`; --keep-alive waits for what is pushed later."
    )


async def _last_look(frontier: Frontier) -> Stats:
    """Somebody waits at the terminal, and has pressed Ctrl-C perhaps because of the server."""
    try:
        async with asyncio.timeout(LAST_LOOK_S):
            return await frontier.stats()
    except TimeoutError:
        raise ServerUnreachable(
            "stopped; the server does not answer, so nobody knows what is left: "
            "run it again to go on."
        ) from None


async def _first_dead(frontier: Frontier) -> str:
    async for letter in dead_letters(frontier):
        return f"{letter.url}: {letter.reason}"
    return ""


async def open_plan(server: Server, plan: Plan) -> Frontier:
    """The job, as configured. Says what an operator set that differs from that, and which wins."""
    if plan.fresh:
        with suppress(JobMissing):
            await purge_job(await open_job(server, plan.job, as_found=True))
    frontier, overruled = await open_crawl(server, plan.job, plan.spider, plan.config)
    for line in tell_overruled(plan.job, overruled):
        tell(line)
    return frontier


def tell_overruled(job: str, overruled: list[Overruled]) -> Iterator[str]:
    def shown(value: object) -> object:
        return "none" if value is None else value

    kept = [one for one in overruled if not one.flag_wins]
    if kept:
        values = ", ".join(
            f"{one.option.name}={shown(one.set_by_operator)} (not {shown(one.configured)})"
            for one in kept
        )
        flags = " or ".join(one.option.flag for one in kept)
        yield f"{job} keeps what `skitter set` changed: {values}. {flags} overrides that."
    for one in overruled:
        if one.flag_wins:
            before = f"{one.option.name}={shown(one.set_by_operator)}"
            yield f"{one.option.flag} replaces {before}, which `skitter set` had set."


async def _run_finish_hooks(spider: Spider, stats: Stats) -> bool:
    """After the report: what is crawled is crawled."""
    try:
        await run_hooks(spider.hooks.finish, stats)
    except (Exception, SystemExit) as error:
        complain(f"an on_finish hook failed: {trace(error)}")
        return False
    return True


def supervisor_of(frontier: Frontier, plan: Plan, out: str) -> Supervisor:
    """The processes run this very command line; what they have to know is in their environment,
    as it may hold passwords, which everybody could read in `ps`."""
    # -P: a protego.py in the working directory is not what Skitter means by `import protego`.
    program = [sys.executable, "-P", "-m", "skitter"]
    of_us = [frontier.job, "--parent", str(os.getpid())]
    transform = ["--transform", plan.target] if plan.spider.transforms else []
    environment = {**os.environ, LOAD_TO: out, WORKER: plan.worker.to_json()}
    if plan.where.redis_url is not None:
        environment["SKITTER_REDIS_URL"] = plan.where.redis_url
    environment["SKITTER_DIR"] = str(plan.where.directory.absolute())
    output = output_of(plan.where, frontier.job)
    children = Children(frontier, environment, output, on_output=tell)
    return Supervisor(
        frontier,
        celery_pool(frontier, plan)
        if plan.engine is Engine.CELERY
        else ProcessPool(children, [*program, "work", *of_us]),
        children,
        loader_command=[*program, "load", *of_us, *transform] if out else None,
        workers=plan.processes,
        keep_alive=plan.keep_alive,
    )


def output_of(where: Settings, job: str) -> Output:
    """What the processes of a job print on this machine."""
    return Output(where.directory / "logs" / f"{job}.log")


@dataclass(slots=True)
class _Painter:
    """Turns what the supervisor sees into what is shown."""

    frontier: Frontier
    display: CrawlDisplay
    began: float
    since_s: float  # the same moment by the server's clock
    rate: Rate = field(default_factory=Rate)
    bound: Bound | None = None
    notes: list[str] = field(default_factory=list)
    errors: HandlerErrors = field(default_factory=HandlerErrors)
    looked_at: float = field(default_factory=time.monotonic)  # those at work begin to be heard of

    async def paint(self, stats: Stats, workers: int) -> None:
        now = time.monotonic()
        if now - self.looked_at > ETA_EVERY_S:
            self.bound, self.looked_at = await slowest_host(self.frontier), now
            self.notes = await find_warnings(self.frontier, stats)
            for error in await self.errors.read(self.frontier, since_s=self.since_s):
                self.display.announce(error)
        self.display.show(
            Moment(
                stats=stats,
                rate=self.rate.update(stats.done, now),
                workers=workers,
                elapsed_s=now - self.began,
                bound=self.bound,
                notes=self.notes,
                max_pages=self.frontier.options.limits.max_pages,
                errors=self.errors.lines(ERRORS_SHOWN),
                error_count=self.errors.counts.total(),
            )
        )
