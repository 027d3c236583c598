"""Crawling: run, crawl, worker, load, export."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import uvloop

from skitter.app import Manners, open_server, open_worker, restart_embedded
from skitter.cli.common import Directory, Job, Json, Redis, settings
from skitter.cli.duty import LoaderDuty
from skitter.cli.output import emit_json, err, say, tell
from skitter.cli.progress import CrawlDisplay, Moment, Rate, duration
from skitter.errors import BadOption, JobMissing, SkitterError, SpiderError, UsageError
from skitter.fetch.guard import authority_of, refusal_of_name
from skitter.fleet.supervisor import Supervisor
from skitter.frontier.connection import Server, redact
from skitter.frontier.eta import Bound, slowest_host
from skitter.frontier.feed import feed
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import ItemStream
from skitter.frontier.jobs import create_job, open_job, purge_job
from skitter.frontier.shard import client_name
from skitter.model import State, Stats
from skitter.settings import Layout, Limits, Politeness, Settings
from skitter.sinks import Hooks, Loaded, load, open_sink
from skitter.sinks.export import export
from skitter.spider import Spider, default_spider, load_spider
from skitter.spider.blame import describe
from skitter.spider.spider import run_hooks
from skitter.urls import fingerprint, identify
from skitter.worker.loop import WorkerOptions

PANEL = "Crawl"
#: How the processes of `skitter crawl` learn what their parent was asked: JSON of `Plain`.
PLAIN = "SKITTER_CRAWL"
LOAD_TO = "SKITTER_LOAD_TO"
MAX_ITEMS = 50_000
SEED_BATCH = 1000
ETA_EVERY_S = 3.0

Target = Annotated[
    str, typer.Argument(metavar="SPIDER", help="A file, file.py:name, or package.module:name.")
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", "-c", min=1, help="Pages at a time, per process.")
]
Workers = Annotated[str, typer.Option("--workers", help="Processes; auto: by queue depth and CPU.")]
RobotsOff = Annotated[bool, typer.Option("--ignore-robots", help="Do not obey robots.txt.")]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A private host that may be fetched; seeds' hosts may."),
]
Parent = Annotated[
    int | None, typer.Option("--parent", hidden=True, help="Stop when this process is gone.")
]
KeepAlive = Annotated[
    bool, typer.Option("--keep-alive", help="Stay when it is finished, for what is pushed later.")
]


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel=PANEL)(run)
    app.command(rich_help_panel=PANEL)(crawl)
    app.command(rich_help_panel=PANEL)(worker)
    app.command("load", rich_help_panel=PANEL)(load_items)
    app.command("export", rich_help_panel=PANEL)(export_items)
    app.command(hidden=True)(work)


class Plain(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl without a spider of the user's."""

    name: str
    seeds: list[str]
    delay_s: float
    max_in_flight: int
    max_depth: int | None
    max_pages: int | None

    def spider(self) -> Spider:
        return default_spider(
            self.name,
            self.seeds,
            politeness=Politeness(delay_s=self.delay_s, max_in_flight=self.max_in_flight),
            limits=Limits(max_depth=self.max_depth, max_pages=self.max_pages),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `run` and `crawl` were asked."""

    target: str
    spider: Spider
    where: Settings
    out: str
    workers: int | None
    concurrency: int
    ignore_robots: bool = False
    allow: tuple[str, ...] = ()
    keep_alive: bool = False
    fresh: bool = False
    max_dead: int | None = None
    is_demo: bool = False  # its folder is gone afterwards: no hints what to do there
    as_json: bool = False


def run(
    target: Target,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="JOB.db, a .jsonl, .csv, .parquet or DSN.")
    ] = None,
    workers: Workers = "cores",
    concurrency: Concurrency = 64,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget an earlier crawl.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    keep_alive: KeepAlive = False,
    ignore_robots: RobotsOff = False,
    allow_host: Allow = None,
    max_dead: Annotated[
        int | None, typer.Option(help="Exit code 1 with more dead letters than this.")
    ] = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Crawl with a spider on this machine: workers, loader, display. Again: it resumes."""
    spider = load_spider(target)
    if fresh and not yes:
        _confirm_fresh(spider.name)
    plan = Plan(
        target=target,
        spider=spider,
        where=settings(redis, directory),
        out=out or f"{spider.name}.db",
        workers=_workers(workers),
        concurrency=concurrency,
        ignore_robots=ignore_robots,
        allow=tuple(allow_host or ()),
        keep_alive=keep_alive,
        fresh=fresh,
        max_dead=max_dead,
        as_json=as_json,
    )
    raise typer.Exit(uvloop.run(run_plan(plan)))


def crawl(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Where to begin.")],
    depth: Annotated[int | None, typer.Option(min=0, help="Links from a seed.")] = None,
    max_pages: Annotated[int | None, typer.Option(min=1, help="Pages at the most.")] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="Where items go.")] = "crawl.jsonl",
    rate: Annotated[
        str, typer.Option("--rate", help="Requests per second to a host, or none for no limit.")
    ] = "1",
    job: Annotated[
        str | None, typer.Option("--job", help="A name; default: one made from the URLs.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget an earlier crawl.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    workers: Workers = "cores",
    concurrency: Concurrency = 64,
    ignore_robots: RobotsOff = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Crawl without a spider: url, title, text, links and status of every page."""
    delay_s, in_flight = _rate(rate)
    name = job or job_name_of(urls)
    if fresh and not yes:
        _confirm_fresh(name)
    plain = Plain(
        name=name,
        seeds=urls,
        delay_s=delay_s,
        max_in_flight=in_flight,
        max_depth=depth,
        max_pages=max_pages,
    )
    plan = Plan(
        target=PLAIN,
        spider=plain.spider(),
        where=settings(redis, directory),
        out=out,
        workers=_workers(workers),
        concurrency=concurrency,
        ignore_robots=ignore_robots,
        fresh=fresh,
        as_json=as_json,
    )
    os.environ[PLAIN] = msgspec.json.encode(plain).decode()
    raise typer.Exit(uvloop.run(run_plan(plan)))


async def run_plan(plan: Plan) -> int:
    began = time.monotonic()
    async with open_server(plan.where, progress=tell) as server:
        frontier = await _open(server, plan)
        async with open_sink(plan.out, job=frontier.job):
            pass  # a place that takes no items is told now, not by a loader that keeps dying
        before = await frontier.stats()
        plan = replace(plan, allow=(*plan.allow, *await _seed(frontier, plan.spider)))
        if before.finished and before.seen and (await frontier.stats()).finished:
            tell(f"{frontier.job} was finished before, and the seeds are known: see --fresh.")
        supervisor = _supervisor(frontier, plan, plan.out)
        with CrawlDisplay(err, quiet=plan.as_json) as display:
            supervisor.on_tick = _Painter(frontier, display, began).paint
            over = await supervisor.run()
        stats = await frontier.stats()
        over = over and stats.state is not State.CANCEL
        if over:
            await _run_finish_hooks(plan.spider, stats)
    report = _report(plan, stats, before, time.monotonic() - began, over=over)
    if plan.as_json:
        emit_json(report)
    else:
        _show(report, hints=not plan.is_demo)
    return report.exit_code


async def _open(server: Server, plan: Plan) -> Frontier:
    options = plan.spider.options
    limits = options.limits
    if limits.max_items is None:
        options = replace(options, limits=replace(limits, max_items=MAX_ITEMS))
    layout = Layout(canonical=plan.spider.canonical)
    if plan.fresh:
        with suppress(JobMissing):
            await purge_job(await open_job(server, plan.spider.name, purging=True))
    return await create_job(server, plan.spider.name, options=options, layout=layout)


async def _seed(frontier: Frontier, spider: Spider) -> set[str]:
    """Offer the seeds; on a resumed crawl they are known. Answers the private hosts among them:
    workers did not see what a generator yields, and a seed allows its own host."""
    batch = []
    private: set[str] = set()
    try:
        async for seed in spider.seeds():
            batch.append(frontier.offer(seed))
            authority = authority_of(seed.url)
            if refusal_of_name(authority.name):
                private.add(authority.host_port)
            if len(batch) >= SEED_BATCH:
                await feed(frontier, batch, wait=True)
                batch = []
    except SkitterError:
        raise
    except Exception as error:
        raise SpiderError(f"the seeds of {spider.name!r} failed: {describe(error)}") from error
    await feed(frontier, batch, wait=True)
    return private


def _supervisor(frontier: Frontier, plan: Plan, out: str) -> Supervisor:
    """The processes run this very command line, and find the server by their environment."""
    program = [sys.executable, "-m", "skitter"]
    work_words = [*program, "work", plan.target, "--job", frontier.job]
    work_words += ["--concurrency", str(plan.concurrency), "--parent", str(os.getpid())]
    work_words += ["--ignore-robots"] if plan.ignore_robots else []
    work_words += [word for host in plan.allow for word in ("--allow-host", host)]
    work_words += ["--keep-alive"] if plan.keep_alive else []
    load_words = [*program, "load", frontier.job, "--parent", str(os.getpid())]
    environment = dict(os.environ)
    if plan.where.redis_url is not None:
        environment["SKITTER_REDIS_URL"] = plan.where.redis_url
    environment[LOAD_TO] = out  # it may hold a password, which everybody could read in `ps`
    environment["SKITTER_DIR"] = str(plan.where.directory.absolute())
    return Supervisor(
        frontier,
        worker_command=work_words,
        loader_command=load_words if out else None,
        workers=plan.workers,
        environment=environment,
        on_server_away=lambda: restart_embedded(plan.where),
        keep_alive=plan.keep_alive,
    )


@dataclass(slots=True)
class _Painter:
    """Turns what the supervisor sees into what is shown."""

    frontier: Frontier
    display: CrawlDisplay
    began: float
    rate: Rate = field(default_factory=Rate)
    bound: Bound | None = None
    looked_at: float = 0.0

    async def paint(self, stats: Stats, workers: int) -> None:
        now = time.monotonic()
        if now - self.looked_at > ETA_EVERY_S:
            self.bound, self.looked_at = await slowest_host(self.frontier), now
        self.display.show(
            Moment(
                stats=stats,
                rate=self.rate.update(stats.done, now),
                workers=workers,
                elapsed_s=now - self.began,
                bound=self.bound,
                max_pages=self.frontier.options.limits.max_pages,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a crawl went."""

    job: str
    finished: bool
    pages: int
    pages_now: int  # in this run
    seconds: float
    pages_per_second: float
    dead: int
    pending: int
    items_waiting: int
    out: str
    exit_code: int


def _report(plan: Plan, stats: Stats, before: Stats, seconds: float, *, over: bool) -> Report:
    code = 0 if over else 130
    if over and plan.max_dead is not None and stats.dead > plan.max_dead:
        code = 1
    pages = stats.done - before.done
    return Report(
        job=stats.job,
        finished=over,
        pages=stats.done,
        pages_now=pages,
        seconds=round(seconds, 2),
        pages_per_second=round(pages / seconds, 1),
        dead=stats.dead,
        pending=stats.pending + stats.delayed + stats.leased,
        items_waiting=stats.items,
        out=redact(plan.out),
        exit_code=code,
    )


def _show(report: Report, *, hints: bool) -> None:
    how = "finished" if report.finished else "stopped; run it again to go on"
    say(
        f"{report.job}: {how}. {report.pages_now:,} pages in {duration(report.seconds)} "
        f"({report.pages_per_second:,.0f}/s), {report.pages:,} in all."
    )
    if hints:
        say(f"items  {report.out}")
    if report.pending:
        say(f"left   {report.pending:,} URLs")
    if report.dead:
        say(f"dead   {report.dead:,} URLs" + f": `skitter dead list {report.job}`" * hints)


async def _run_finish_hooks(spider: Spider, stats: Stats) -> None:
    try:
        await run_hooks(spider.hooks.finish, stats)
    except Exception as error:
        raise SpiderError(f"an on_finish hook failed: {describe(error)}") from error


def worker(
    target: Target,
    processes: Annotated[
        str, typer.Option("--processes", "-p", help="How many; cores, or auto.")
    ] = "cores",
    job: Annotated[str | None, typer.Option("--job", help="Default: the spider's name.")] = None,
    concurrency: Concurrency = 64,
    keep_alive: KeepAlive = False,
    ignore_robots: RobotsOff = False,
    allow_host: Allow = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Work on a crawl from this machine, beside others: `--redis` says where it lives."""
    spider = load_spider(target)
    plan = Plan(
        target=target,
        spider=spider,
        where=settings(redis, directory),
        out="",
        workers=_workers(processes),
        concurrency=concurrency,
        ignore_robots=ignore_robots,
        allow=tuple(allow_host or ()),
        keep_alive=keep_alive,
    )

    async def main() -> bool:
        async with open_server(plan.where, progress=tell) as server:
            layout = Layout(canonical=spider.canonical)
            frontier = await create_job(server, job or spider.name, layout=layout)
            return await _supervisor(frontier, plan, "").run()

    raise typer.Exit(0 if uvloop.run(main()) else 130)


def work(
    target: str,
    job: Annotated[str, typer.Option("--job")],
    concurrency: Concurrency = 64,
    keep_alive: KeepAlive = False,
    ignore_robots: RobotsOff = False,
    allow_host: Allow = None,
    parent: Parent = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """One worker, in this process."""
    spider = spider_of(target)
    manners = Manners(obey_robots=not ignore_robots, allowed_hosts=frozenset(allow_host or ()))
    options = WorkerOptions(concurrency=concurrency, keep_alive=keep_alive, parent=parent)

    async def main() -> None:
        async with open_server(settings(redis, directory), progress=tell) as server:
            frontier = await open_job(server, job)
            async with open_worker(frontier, spider, manners=manners, options=options) as one:
                await one.run()

    uvloop.run(main())


def spider_of(target: str) -> Spider:
    """The spider of a file, or the one that `skitter crawl` described to its processes."""
    if target != PLAIN:
        return load_spider(target)
    return msgspec.json.decode(os.environ[PLAIN], type=Plain).spider()


def load_items(
    job: Job,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            envvar=LOAD_TO,
            show_envvar=False,
            help="JOB.db, a .jsonl, .csv, .parquet or DSN.",
        ),
    ],
    parent: Parent = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Move items from the crawl into a database or file, until stopped."""

    async def main() -> Loaded:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with open_server(settings(redis, directory), progress=tell) as server:
            frontier = await open_job(server, job)
            duty = LoaderDuty(frontier, client_name(), stop, parent)
            async with open_sink(to, job=job) as sink, asyncio.TaskGroup() as group:
                beating = group.create_task(duty.beat())
                hooks = Hooks(on_state=duty.tell, on_rejected=duty.set_aside)
                source = ItemStream(frontier, duty.name)
                loaded = await load(source, sink, stop=stop, hooks=hooks)
                beating.cancel()
            await duty.leave()
            return loaded

    loaded = uvloop.run(main())
    if parent is None:
        say(f"{job}: {loaded.written:,} rows to {to}")


def export_items(
    job: Job,
    to: Annotated[Path, typer.Option("--to", help="A .jsonl, .csv or .parquet file.")],
    source: Annotated[
        str | None, typer.Option("--from", help="The database; default: JOB.db.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy a job's rows from its database into a file."""
    rows = uvloop.run(export(source or f"{job}.db", job=job, to=to))
    if as_json:
        emit_json({"job": job, "rows": rows, "to": str(to)})
    else:
        say(f"{job}: {rows:,} rows to {to}")


def job_name_of(urls: list[str]) -> str:
    """The same URLs again are the same job, so that a crawl resumes."""
    targets = [identify(url) for url in urls]
    host = re.sub(r"[^A-Za-z0-9.-]", "-", targets[0].host).strip(".-")[:60] or "crawl"
    mark = int(fingerprint(" ".join(sorted(one.canonical for one in targets)))) % 36**4
    return f"{host}-{mark:06x}"


def _workers(asked: str) -> int | None:
    if asked == "auto":
        return None
    if asked == "cores":
        return os.cpu_count() or 1
    if not asked.isdigit() or not 1 <= int(asked) <= 1000:
        raise BadOption("--workers", asked, "a number from 1 to 1000, cores or auto")
    return int(asked)


def _rate(asked: str) -> tuple[float, int]:
    """Seconds between requests and how many at a time."""
    if asked == "none":
        return 0.0, 64
    try:
        per_second = float(asked)
    except ValueError:
        per_second = 0.0
    if not 0 < per_second <= 10_000:
        raise BadOption("--rate", asked, "requests per second, or none")
    return 1 / per_second, max(1, round(per_second))


def _confirm_fresh(job: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError("--fresh forgets the earlier crawl and there is nobody to ask: add --yes.")
    if not typer.confirm(f"Forget all that {job!r} has crawled?", err=True):
        raise typer.Exit(1)
