"""Crawling: run, crawl, worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Annotated

import msgspec
import typer
import uvloop

from skitter.app import Manners, open_server, open_worker
from skitter.cli.common import Directory, Json, Parent, Redis, settings, told_by
from skitter.cli.output import tell
from skitter.cli.plain import PLAIN, Plain, job_name_of, politeness_of, spider_of
from skitter.cli.plan import DEFAULT_MEMORY_MB, DEFAULT_PAGE_MB, Engine, Plan
from skitter.cli.report import INTERRUPTED
from skitter.cli.running import create_for, output_of, run_plan, supervisor_of
from skitter.errors import BadOption, JobMissing, SkitterError, UsageError
from skitter.frontier.admin.jobs import open_job
from skitter.frontier.client import MARK, client_name
from skitter.frontier.connection import Server
from skitter.frontier.frontier import Frontier
from skitter.settings.fetch import FetchOptions
from skitter.sinks.registry import OUT_FILES
from skitter.spider import Spider, load_spider
from skitter.worker.loop import GONE_S, Worker, WorkerOptions
from skitter.worker.pulse import is_orphan

PANEL = "Crawl"
#: Half a lease: what is longer without a word loses its leases anyway.
ENDS_ITSELF_S = 30.0

Target = Annotated[
    str, typer.Argument(metavar="SPIDER", help="A file, file.py:name, or package.module:name.")
]
Concurrency = Annotated[
    int,
    typer.Option("--concurrency", "-c", min=1, max=10_000, help="Concurrent pages per process."),
]
MaxPage = Annotated[
    float,
    typer.Option("--max-page-size", min=0.01, max=1024, help="Maximum page size in MB, unpacked."),
]
MaxMemory = Annotated[
    int,
    typer.Option("--max-memory", min=50, help="Replace a worker that uses more than this many MB."),
]
Workers = Annotated[
    str,
    typer.Option("--workers", help="Number of processes, cores, or auto (by queue depth and CPU)."),
]
RobotsOff = Annotated[bool, typer.Option("--ignore-robots", help="Ignore robots.txt.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        help="A private host that may be fetched: a name or an address, with a port or without. "
        "Seeds that are addresses, or localhost, may be.",
    ),
]
KeepAlive = Annotated[
    bool,
    typer.Option(
        "--keep-alive", help="Keep running when the crawl is finished, and wait for more URLs."
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command(rich_help_panel=PANEL)(run)
    app.command(rich_help_panel=PANEL)(crawl)
    app.command(rich_help_panel=PANEL)(worker)
    app.command(hidden=True)(work)


def run(
    target: Target,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help=f"Where items go: a file ({OUT_FILES}) or a DSN. Default: JOB.db.",
        ),
    ] = None,
    workers: Workers = "cores",
    concurrency: Concurrency = 64,
    max_page_size: MaxPage = DEFAULT_PAGE_MB,
    max_memory: MaxMemory = DEFAULT_MEMORY_MB,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Discard the earlier crawl and start over.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    keep_alive: KeepAlive = False,
    engine: Annotated[Engine, typer.Option(help="What fetches the pages.")] = Engine.PROCESSES,
    ignore_robots: RobotsOff = False,
    allow_host: Allow = None,
    max_dead: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Exit with 1 if there are more dead letters than this. Default: half of all URLs.",
        ),
    ] = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Crawl with a spider on this machine: workers, loader, live display. Run again to resume.

    With --engine celery, Celery workers fetch the pages, and --workers is the number of pumps.
    """
    if engine is Engine.CELERY and max_memory != DEFAULT_MEMORY_MB:
        raise UsageError(
            "--max-memory is for processes of ours: start Celery's workers with "
            f"--max-memory-per-child={max_memory * 1024} instead, which is the same in KiB."
        )
    spider = load_spider(target)
    if fresh and not yes:
        _confirm_fresh(spider.name)
    plan = Plan(
        target=target,
        spider=spider,
        where=settings(redis, directory),
        out=out or f"{spider.name}.db",
        workers=_pumps(workers) if engine is Engine.CELERY else _workers(workers),
        concurrency=concurrency,
        max_page_mb=max_page_size,
        max_memory_mb=max_memory,
        ignore_robots=ignore_robots,
        allow=tuple(allow_host or ()),
        keep_alive=keep_alive,
        engine=engine,
        fresh=fresh,
        max_dead=max_dead,
        as_json=as_json,
    )
    raise typer.Exit(uvloop.run(run_plan(plan)))


def crawl(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Start URLs.")],
    depth: Annotated[
        int | None, typer.Option(min=0, help="Maximum number of links from a start URL.")
    ] = None,
    max_pages: Annotated[int | None, typer.Option(min=1, help="Maximum number of pages.")] = None,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help=f"Where items go: a file ({OUT_FILES}) or a DSN."),
    ] = "crawl.jsonl",
    rate: Annotated[
        str, typer.Option("--rate", help="Requests per second to each host; none for no limit.")
    ] = "1",
    job: Annotated[
        str | None, typer.Option("--job", help="Job name. Default: derived from the URLs.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Discard the earlier crawl and start over.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    workers: Workers = "cores",
    concurrency: Concurrency = 64,
    max_page_size: MaxPage = DEFAULT_PAGE_MB,
    max_memory: MaxMemory = DEFAULT_MEMORY_MB,
    ignore_robots: RobotsOff = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Crawl without a spider: store url, title, text, links and status of every page."""
    delay_s, in_flight = politeness_of(rate)
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
        max_page_mb=max_page_size,
        max_memory_mb=max_memory,
        ignore_robots=ignore_robots,
        fresh=fresh,
        as_json=as_json,
    )
    os.environ[PLAIN] = msgspec.json.encode(plain).decode()
    raise typer.Exit(uvloop.run(run_plan(plan)))


def worker(
    target: Target,
    processes: Annotated[
        str, typer.Option("--processes", "-p", help="Number of processes, cores, or auto.")
    ] = "cores",
    job: Annotated[
        str | None, typer.Option("--job", help="Job name. Default: the spider's name.")
    ] = None,
    concurrency: Concurrency = 64,
    max_page_size: MaxPage = DEFAULT_PAGE_MB,
    max_memory: MaxMemory = DEFAULT_MEMORY_MB,
    keep_alive: KeepAlive = False,
    ignore_robots: RobotsOff = False,
    allow_host: Allow = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Join a crawl from this machine; --redis names the server that holds it."""
    spider = load_spider(target)
    plan = Plan(
        target=target,
        spider=spider,
        where=settings(redis, directory),
        out="",
        workers=_workers(processes),
        concurrency=concurrency,
        max_page_mb=max_page_size,
        max_memory_mb=max_memory,
        ignore_robots=ignore_robots,
        allow=tuple(allow_host or ()),
        keep_alive=keep_alive,
    )

    async def main() -> int:
        async with open_server(plan.where, progress=tell) as server:
            frontier = await _join(server, spider, job or spider.name)
            tell(f"At work on {frontier.job}: `skitter logs {frontier.job} -f` shows how.")
            if not (await frontier.stats()).seen:
                tell(f"It has no URLs yet: `skitter run {target}` adds some. Waiting.")
            supervisor = supervisor_of(frontier, plan, "")
            over = await supervisor.run()
            tell(f"{frontier.job}: {'nothing is left to fetch' if over else 'stopped'}.")
            return INTERRUPTED if supervisor.stopped_by is signal.SIGINT else 0

    raise typer.Exit(uvloop.run(main()))


async def _join(server: Server, spider: Spider, job: str) -> Frontier:
    """Whoever comes first makes the job as the spider wants it; the others take it as it is."""
    try:
        return await open_job(server, job)
    except JobMissing:
        return await create_for(server, spider, job=job)


def work(
    target: str,
    job: Annotated[str, typer.Option("--job")],
    concurrency: Concurrency = 64,
    max_page_size: MaxPage = DEFAULT_PAGE_MB,
    max_memory: MaxMemory = DEFAULT_MEMORY_MB,
    keep_alive: KeepAlive = False,
    ignore_robots: RobotsOff = False,
    allow_host: Allow = None,
    parent: Parent = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """One worker, in this process."""
    spider = spider_of(target)
    manners = Manners(
        obey_robots=not ignore_robots,
        allowed_hosts=frozenset(allow_host or ()),
        fetch=FetchOptions(max_body_mb=max_page_size),
    )
    options = WorkerOptions(
        concurrency=concurrency,
        max_rss_mb=max_memory,
        keep_alive=keep_alive,
        parent=parent,
        stuck_s=ENDS_ITSELF_S,
        stuck_log=output_of(settings(redis, directory), job).stuck,
    )

    async def main() -> None:
        async with open_server(settings(redis, directory), progress=tell) as server:
            name = client_name(mark=os.environ.get(MARK))
            while (frontier := await _find(server, job, client=name, wait=keep_alive)) is None:
                if is_orphan(parent):
                    return
                await asyncio.sleep(GONE_S)
            async with open_worker(frontier, spider, manners=manners, options=options) as one:
                await run_to_the_end(one)

    with told_by(parent):
        uvloop.run(main())


async def _find(server: Server, job: str, *, client: str, wait: bool) -> Frontier | None:
    """The job. None: it was removed a moment ago, and the caller waits until it is made again."""
    try:
        return await open_job(server, job, client=client)
    except JobMissing:
        if wait:
            return None
        raise


async def run_to_the_end(worker: Worker) -> None:
    """The exit code of a usage error says that a repeat gives the same answer, and ends the whole
    fleet. That is true only of a worker that could not begin."""
    try:
        await worker.run()
    except JobMissing:
        raise  # the supervisor sees that for itself, and tells it
    except UsageError as error:
        if not worker.has_begun:
            raise
        raise SkitterError(str(error)) from error


def _workers(asked: str) -> int | None:
    if asked == "auto":
        return None
    if asked == "cores":
        return os.cpu_count() or 1
    if not asked.isdecimal() or not 1 <= int(asked) <= 1000:
        raise BadOption("--workers", asked, "a number from 1 to 1000, cores or auto")
    return int(asked)


def _pumps(asked: str) -> int | None:
    """The cores of this machine say nothing about Celery's workers."""
    return None if asked == "cores" else _workers(asked)


def _confirm_fresh(job: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "--fresh discards the earlier crawl, and there is no terminal to confirm on: add --yes."
        )
    question = f"Forget which pages {job!r} has crawled? (Rows that are stored stay.)"
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
