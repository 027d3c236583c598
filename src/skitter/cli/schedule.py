"""Schedules: add, list, remove, watch."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from skitter.app import open_crawl
from skitter.cli.common import (
    Arguments,
    Directory,
    Job,
    Json,
    Redis,
    on_job,
    on_server,
    pairs_of,
    seconds_of,
    settings,
)
from skitter.cli.output import answer, emit_json, grid, print_progress, say
from skitter.errors import JobMissing, SkitterError, SpiderError
from skitter.frontier.admin.actions import NewAction
from skitter.frontier.admin.jobs import for_each_job, open_job
from skitter.frontier.admin.schedule import (
    Schedule,
    new_schedule,
    read_schedule,
    remove_schedule,
    set_schedule,
)
from skitter.frontier.connection import Server
from skitter.frontier.frontier import Frontier
from skitter.report import duration, moment
from skitter.settings import resolve
from skitter.spider import Spider, load_spider
from skitter.spider.rounds import begin_due_round, tell_round

group = typer.Typer(no_args_is_help=True, help="Start rounds of a job on a schedule.")
WATCH_S = 1.0
Spiders = Annotated[
    str, typer.Argument(metavar="SPIDER", help="A file, file.py:name, or package.module:name.")
]
JobName = Annotated[str | None, typer.Option("--job", help="Job name. Default: the spider's name.")]


@group.command("add")
def add(
    target: Annotated[
        str,
        typer.Argument(metavar="JOB|SPIDER", help="A job, or its spider: file.py."),
    ],
    cron: Annotated[
        str, typer.Option(metavar="EXPRESSION", help="As in '0 3 * * *', in UTC.")
    ] = "",
    every: Annotated[str, typer.Option(metavar="INTERVAL", help="Such as 6h, 90m or 2d.")] = "",
    arguments: Arguments = None,
    job: JobName = None,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Set the schedule of a job. If the argument is a spider, its job is created."""
    spider = load_spider(target, pairs_of(arguments)) if names_a_spider(target) else None
    name = job or (spider.name if spider else target)

    async def work(server: Server) -> Schedule:
        every_s = seconds_of("every", every) if every else 0.0
        new_schedule(cron=cron, every_s=every_s, now_ms=0)  # check before creating a job
        frontier = await _open(server, name, spider)
        now_ms = round(1000 * await frontier.server_time())
        schedule = new_schedule(cron=cron, every_s=every_s, now_ms=now_ms)
        await set_schedule(frontier, schedule)
        return schedule

    action = NewAction(name, "schedule", cron or f"every {every}")
    schedule = on_server(settings(redis, directory), work, action=action)
    says = f"{name}: the next round begins at {moment(schedule.next_ms / 1000)}."
    answer(_document(name, schedule), says, as_json=as_json)
    if not as_json:
        shown = target if spider else "SPIDER"
        print_progress(
            "Rounds need a running process: `skitter run --keep-alive` with its spider, or "
            f"`skitter schedule watch {shown}`."
        )


def names_a_spider(target: str) -> bool:
    """Job names contain neither : nor /. A file called `books` does not make `books` a spider."""
    return target.endswith(".py") or ":" in target or "/" in target


async def _open(server: Server, job: str, spider: Spider | None) -> Frontier:
    """Open the job; if there is none, create it with the spider's options."""
    try:
        return await open_job(server, job)
    except JobMissing:
        if spider is None:
            raise
    return (await open_crawl(server, job, spider, resolve({}, job=job, spider=spider.tables)))[0]


@group.command("list")
def show(redis: Redis = None, directory: Directory = None, as_json: Json = False) -> None:
    """List the schedules of all jobs. Those that cannot be read are named by `audit`."""

    async def work(server: Server) -> list[tuple[str, Schedule]]:
        async def look(job: str) -> Schedule | None:
            return await read_schedule(await open_job(server, job, as_found=True))

        found = await for_each_job(server, look)
        return [(job, schedule) for job, schedule in found.items() if schedule]

    found = on_server(settings(redis, directory), work)
    if as_json:
        emit_json([_document(*one) for one in found])
    elif found:
        grid(["job", "when", "next round", "last round", "rounds", "missed"], list(_rows(found)))
    else:
        say("No job has a schedule.")


@group.command("remove")
def remove(
    job: Job, redis: Redis = None, directory: Directory = None, as_json: Json = False
) -> None:
    """Remove the schedule of a job."""
    action = NewAction(job, "unschedule")
    removed = on_job(settings(redis, directory), job, remove_schedule, action=action)
    says = "its schedule is removed" if removed else "it had no schedule"
    answer({"job": job, "removed": removed}, f"{job}: {says}.", as_json=as_json)


@group.command("watch")
def watch(
    target: Spiders,
    arguments: Arguments = None,
    job: JobName = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Start the rounds of a job when they are due, until stopped. Each starts once."""
    spider = load_spider(target, pairs_of(arguments))
    name = job or spider.name

    async def work(server: Server) -> None:
        frontier = await _open(server, name, spider)
        schedule = await read_schedule(frontier)
        when = (
            f"the next round begins at {moment(schedule.next_ms / 1000)}"
            if schedule
            else (f"no schedule yet, add one: `skitter schedule add {name} --every 6h`")
        )
        print_progress(f"Watching {name}: {when}.")
        await _watch(frontier, spider)

    on_server(settings(redis, directory), work)


async def _watch(frontier: Frontier, spider: Spider) -> None:
    """Begin rounds as they fall due. If the server is down or seeds fail, report once and retry."""
    last_error = ""
    while True:
        try:
            begun = await begin_due_round(frontier, spider)
        except SkitterError as error:
            if not (error.retryable or isinstance(error, SpiderError)):
                raise
            if str(error) != last_error:
                print_progress(f"{error} Trying again.")
            last_error = str(error)
        else:
            last_error = ""
            if begun and begun.is_ours:
                say(f"{moment(begun.due_ms / 1000)}: {tell_round(begun)[1]}.")
                sys.stdout.flush()  # to a file too: it may run for weeks
        await asyncio.sleep(WATCH_S)


def _document(job: str, schedule: Schedule) -> dict[str, Any]:
    return {"job": job, **msgspec.structs.asdict(schedule)}


def _rows(found: list[tuple[str, Schedule]]) -> Iterator[list[object]]:
    for job, one in found:
        when = one.cron or f"every {duration(one.every_s)}"
        last = moment(one.fired_ms / 1000) if one.fired_ms else "never"
        yield [job, when, moment(one.next_ms / 1000), last, one.rounds, one.missed]
