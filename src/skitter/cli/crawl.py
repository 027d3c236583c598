"""Crawling: run, crawl, worker."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any

import uvloop

from skitter.app import open_server
from skitter.cli.common import Arguments, Directory, Json, Redis, Yes, pairs_of
from skitter.cli.dashboard import WithDashboard, dashboard
from skitter.cli.flags import CRAWLING, WORKING, Given, with_flags
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.running import run_plan, supervisor_of
from skitter.cli.show.output import ABOUT, LINES, print_progress
from skitter.crawl.lifecycle import open_plan
from skitter.crawl.plan import Engine, Plan
from skitter.errors import BadOption, JobMissing, UsageError
from skitter.fetch.browser.chromium import check_browser
from skitter.fetch.filebucket import Bucket
from skitter.fetch.pdf import has_library
from skitter.frontier.control import change_options
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import Server
from skitter.frontier.transport.endpoints import NAME
from skitter.observe.logs import check_log
from skitter.observe.report import INTERRUPTED
from skitter.settings import JOB_OPTIONS, resolve
from skitter.settings.option import seconds_of
from skitter.sinks import MissingExtra, main_first
from skitter.spider import load_spider
from skitter.spider.default import Format, Wanted
from skitter.urls import fingerprint, identify

WORKER_NAME = re.compile(r"[A-Za-z0-9-]{1,30}")
#: The spider of `skitter crawl`.
PLAIN = "skitter.spider.default:crawl"

Target = Annotated[
    str, Argument(metavar="SPIDER", help="A file, file.py:name, or package.module:name.")
]
JobName = Annotated[str | None, Option("--job", help="Job name. Default: the spider's name.")]
Fresh = Annotated[
    bool, Option("--fresh", help="Discard the earlier crawl with its rows, and start over.")
]
KeepRows = Annotated[
    bool, Option("--keep-rows", help="With --fresh: leave the rows in the output.")
]
MaxTime = Annotated[
    str | None,
    Option(
        "--max-time",
        metavar="TIME",
        help="Stop after this time, such as 90s, 10m or 2h; run it again to continue.",
    ),
]
KeepAlive = Annotated[
    bool,
    Option("--keep-alive", help="Keep running when the crawl is finished, and wait for more URLs."),
]


@with_flags(CRAWLING, settable=True)
def run(
    target: Target,
    arguments: Arguments = None,
    job: JobName = None,
    fresh: Fresh = False,
    keep_rows: KeepRows = False,
    yes: Yes = False,
    keep_alive: KeepAlive = False,
    max_time: MaxTime = None,
    engine: Annotated[Engine, Option(help="What fetches the pages.")] = Engine.PROCESSES,
    max_dead: Annotated[
        int | None,
        Option(
            min=0,
            help="Exit with 1 if there are more dead letters than this. Default: half of all URLs.",
        ),
    ] = None,
    max_errors: Annotated[
        int | None,
        Option(
            min=1,
            help="Stop, and exit with 1, when handlers have failed on this many pages. Default: at "
            "a terminal, when one fails with the same error on all of its first 10.",
        ),
    ] = None,
    with_dashboard: WithDashboard = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Crawl with a spider: workers, a loader and a live display.

    Run it again to resume. With --engine celery, Celery workers fetch the pages, and --workers is
    the number of pumps. The exit code is 4 if URLs were held: they look like a trap, or no worker
    has their handler.
    """
    if engine is Engine.CELERY and (limit_mb := given.get("workers.max_memory_mb")):
        raise UsageError(
            "--max-memory does not apply to Celery workers: start them with "
            f"--max-memory-per-child={limit_mb * 1024}, which is the same in KiB."
        )
    if engine is Engine.CELERY and "fetch.proxy" in given:
        raise UsageError(
            "--proxy does not apply to Celery workers: set HTTPS_PROXY where they run, or "
            "fetch.proxy in their skitter.toml."
        )
    if engine is Engine.CELERY and (given.get("archive.keep") or given.get("fetch.cache")):
        raise UsageError(
            "--archive and --cache do not apply to Celery workers, which keep pages where they "
            "run: set archive.keep and archive.folder in their skitter.toml."
        )
    how: dict[str, Any] = {
        "fresh": fresh,
        "keep_rows": keep_rows,
        "keep_alive": keep_alive,
        "max_time_s": seconds_of("--max-time", max_time) if max_time else None,
        "as_json": as_json,
    }
    how |= {"engine": engine, "max_dead": max_dead, "max_errors": max_errors}
    plan = plan_of(target, pairs_of(arguments), job, given, **how)
    _run(plan, yes=yes, with_dashboard=with_dashboard)


@with_flags(CRAWLING, settable=True)
def crawl(
    urls: Annotated[list[str], Argument(metavar="URL...", help="Start URLs.")],
    rate: Annotated[
        str | None,
        Option("--rate", help="Requests per second to each host; none for no limit."),
    ] = None,
    sitemap: Annotated[
        bool, Option("--sitemap", help="Start from the sitemaps of the URLs' hosts, too.")
    ] = False,
    files: Annotated[
        str,
        Option(
            "--files",
            metavar="KINDS",
            help="Download files, too: all, or kinds such as pdf,image; docs/howto/files.md.",
        ),
    ] = "",
    format: Annotated[
        Format | None,
        Option("--format", help="What to store of a page; docs/howto/content.md. Default: text."),
    ] = None,
    job: Annotated[
        str | None, Option("--job", help="Job name. Default: derived from the URLs.")
    ] = None,
    max_time: MaxTime = None,
    fresh: Fresh = False,
    keep_rows: KeepRows = False,
    yes: Yes = False,
    with_dashboard: WithDashboard = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
    *,
    given: Given,
) -> None:
    """Crawl without a spider, and store what every page says.

    Each row has the url, title, text, links and status of a page; the text is without menus and
    footers. With --format, the page as Markdown, as HTML, its data, or all of its raw text take
    the place of that. Run it again to resume. The exit code is 4 if URLs that look like a trap
    were held.
    """
    if rate is not None:
        if "politeness.delay_s" in given:
            raise UsageError("--rate and --delay both set the pace: choose one.")
        given = _politeness_of(rate) | given
    Wanted(files.split(","))  # raises for a kind that does not exist
    derived = _job_name_of(urls)  # raises for a URL that is not valid
    if format not in (None, Format.TEXT):  # a crawl of its own: rows of two formats do not mix
        derived = f"{derived}-{format}"
    arguments = {"name": job or derived, "urls": urls, "sitemap": sitemap, "files": files}
    arguments |= {"format": format.value if format else ""}
    how: dict[str, Any] = {"fresh": fresh, "keep_rows": keep_rows, "as_json": as_json}
    how |= {"max_time_s": seconds_of("--max-time", max_time) if max_time else None}
    plan = plan_of(PLAIN, arguments, None, given, **how)
    for out in (plan.out, *plan.also):
        if out.endswith("/") and "://" not in out and format is not Format.MARKDOWN:
            raise UsageError(f"{out} is a folder of Markdown files: add --format markdown.")
    _run(plan, yes=yes, with_dashboard=with_dashboard)


def _job_name_of(urls: list[str]) -> str:
    """The same URLs give the same job, so that the crawl resumes."""
    targets = [identify(url) for url in urls]
    host = re.sub(r"[^A-Za-z0-9.-]", "-", targets[0].host).strip(".-")[:60] or "crawl"
    mark = int(fingerprint(" ".join(sorted(target.canonical for target in targets)))) % 36**4
    return f"{host}-{mark:06x}"


def _politeness_of(asked: str) -> Given:
    """The delay and the requests in flight for that rate, as flags would set them."""
    if asked == "none":
        return {"politeness.delay_s": 0.0, "politeness.max_in_flight": 64}
    try:
        per_second = float(asked)
    except ValueError:
        per_second = 0.0
    if not 1 / 86_400 <= per_second <= 10_000:
        raise BadOption("--rate", asked, "requests per second, from one a day to 10,000, or none")
    in_flight = max(1, round(per_second))
    return {"politeness.delay_s": 1 / per_second, "politeness.max_in_flight": in_flight}


@with_flags(WORKING, settable=True)
def worker(
    target: Target,
    arguments: Arguments = None,
    job: JobName = None,
    name: Annotated[
        str | None,
        Option("--name", help="What its workers are called. Default: the name of the machine."),
    ] = None,
    keep_alive: KeepAlive = False,
    with_dashboard: WithDashboard = False,
    redis: Redis = None,
    directory: Directory = None,
    *,
    given: Given,
) -> None:
    """Join a crawl with the workers of this machine.

    --redis names the server that holds the crawl.
    """
    if name is not None:
        if not WORKER_NAME.fullmatch(name):
            raise BadOption("--name", name, "up to 30 letters, digits and hyphens")
        os.environ[NAME] = name  # for its processes, too
    plan = plan_of(target, pairs_of(arguments), job, given, keep_alive=keep_alive)
    _work(plan, _join, with_dashboard=with_dashboard)


def plan_of(
    target: str, arguments: dict[str, Any], job: str | None, given: Given, **how: Any
) -> Plan:
    spider = load_spider(target, arguments)
    name = job or spider.name
    config = resolve(given, job=name, spider=spider.tables)
    check_log(config.log)
    LINES.set(config.log.format)
    ABOUT.set(name)
    out, *also = main_first(config.output.places(f"{name}.{'jsonl' if target == PLAIN else 'db'}"))
    plan = Plan(
        target=target,
        arguments=arguments,
        spider=spider,
        job=name,
        config=config,
        out=out,
        also=tuple(also),
        **how,
    )
    if plan.worker.archive.is_on:
        from skitter.archive.store import check  # an extra

        check(plan.worker.archive.store)
    if plan.worker.files.store:
        Bucket(plan.worker.files.store).check()
        if plan.worker.files.text:
            raise UsageError("--files-text reads files from a folder: leave --files-store out.")
    if plan.worker.files.text and not has_library():
        raise MissingExtra("the text of PDF files", "pdf")
    if plan.renders_here:  # report it once, not from each process
        check_browser(config.browser)
    if plan.engine is Engine.PROCESSES:  # before --fresh discards anything
        for proxy in config.proxies:
            if proxy.secret and proxy.is_for(config.routes.region):
                proxy.read_secret()
    return plan


def _run(plan: Plan, *, yes: bool, with_dashboard: bool) -> None:
    if plan.keep_rows and not plan.fresh:
        raise UsageError("--keep-rows goes with --fresh: without it, all rows stay anyway.")
    _work(plan, partial(run_plan, yes=yes), with_dashboard=with_dashboard)


def _work(
    plan: Plan, work: Callable[[Plan], Coroutine[Any, Any, int]], *, with_dashboard: bool
) -> None:
    with dashboard(plan.where, wanted=with_dashboard, out=", ".join((plan.out, *plan.also))):
        code = uvloop.run(work(plan))
    raise Exit(code)


async def _join(plan: Plan) -> int:
    async with open_server(plan.where, progress=print_progress) as server:
        frontier = await _open(server, plan)
        print_progress(f"Working on {frontier.job}; `skitter logs {frontier.job} -f` follows it.")
        if not (await frontier.stats()).seen:
            named = "" if plan.job == plan.spider.name else f" --job {plan.job}"
            adding = f"`skitter run {plan.target}{named}` adds some"
            print_progress(f"It has no URLs yet: {adding}. Waiting.")
        supervisor = supervisor_of(frontier, plan)
        over = await supervisor.run()
        print_progress(f"{frontier.job}: {'nothing is left to fetch' if over else 'stopped'}.")
        return INTERRUPTED if supervisor.stopped_by is signal.SIGINT else 0


async def _open(server: Server, plan: Plan) -> Frontier:
    """The first worker creates the job with the spider's options; later ones change only what
    their flags set."""
    try:
        frontier = await open_job(server, plan.job)
    except JobMissing:
        return await open_plan(server, plan, print_progress)
    said = {option.name: option for option in JOB_OPTIONS if option.key in plan.config.explicit}
    if said:
        options = plan.config.job_options
        changes = {
            name: getattr(getattr(options, option.table), name) for name, option in said.items()
        }
        await change_options(frontier, changes)
    return frontier
