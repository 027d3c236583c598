"""Schedules: add, list, remove, watch."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from skitter.cli.common import Directory, Job, Json, Redis, on_job, on_server, settings
from skitter.cli.output import answer, emit_json, grid, say
from skitter.errors import BadOption, JobDamaged, JobMissing
from skitter.frontier.admin.jobs import list_jobs, open_job
from skitter.frontier.admin.schedule import (
    Schedule,
    new_schedule,
    read_schedule,
    remove_schedule,
    set_schedule,
)
from skitter.frontier.connection import Server
from skitter.frontier.frontier import Frontier

group = typer.Typer(no_args_is_help=True, help="Schedules: when the rounds of a job begin.")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
HINT = "a worker that stays begins its rounds (`skitter run SPIDER --keep-alive`), or `watch`"


def seconds_of(text: str) -> float:
    """6h, 90m, 2d or a number of seconds. Raises BadOption."""
    found = re.fullmatch(r"(\d{1,9})([smhdw]?)", text.strip())
    if not found:
        raise BadOption("every", text, "such as 6h, 90m or 2d")
    return float(int(found[1]) * UNITS[found[2] or "s"])


@group.command("add")
def add(
    job: Job,
    cron: Annotated[
        str, typer.Option(metavar="EXPRESSION", help="As in '0 3 * * *', in UTC.")
    ] = "",
    every: Annotated[str, typer.Option(metavar="INTERVAL", help="Such as 6h, 90m or 2d.")] = "",
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Give a job a schedule, in place of the one it has."""

    async def work(frontier: Frontier) -> Schedule:
        now_ms = round(1000 * await frontier.server_time())
        every_s = seconds_of(every) if every else 0.0
        schedule = new_schedule(cron=cron, every_s=every_s, now_ms=now_ms)
        await set_schedule(frontier, schedule)
        return schedule

    schedule = on_job(settings(redis, directory), job, work)
    says = f"{job}: the next round begins at {_moment(schedule.next_ms)}; {HINT}."
    answer(_document(job, schedule), says, as_json=as_json)


@group.command("list")
def show(redis: Redis = None, directory: Directory = None, as_json: Json = False) -> None:
    """List the schedules of all jobs that can be read; `audit` names the others."""

    async def work(server: Server) -> list[tuple[str, Schedule]]:
        found = []
        for job in await list_jobs(server):
            try:
                schedule = await read_schedule(await open_job(server, job, as_found=True))
            except (JobDamaged, JobMissing):  # one of them must not hide the others
                continue
            if schedule:
                found.append((job, schedule))
        return found

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
    removed = on_job(settings(redis, directory), job, remove_schedule)
    says = "its schedule is removed" if removed else "it had no schedule"
    answer({"job": job, "removed": removed}, f"{job}: {says}.", as_json=as_json)


@group.command("watch")
def watch(
    spider: Annotated[str, typer.Argument(help="The spider of the job: file.py or module:name.")],
    job: Annotated[str, typer.Option(help="The job. Default: the spider's name.")] = "",
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Begin the rounds of a job, until stopped. Any number may watch; a round begins once."""
    from skitter.spider import load_spider
    from skitter.spider.rounds import begin_due_round, tell_round

    loaded = load_spider(spider)

    async def work(frontier: Frontier) -> None:
        while True:
            if begun := await begin_due_round(frontier, loaded):
                say(tell_round(begun)[1])
            await asyncio.sleep(1.0)

    on_job(settings(redis, directory), job or loaded.name, work)


def _document(job: str, schedule: Schedule) -> dict[str, Any]:
    return {"job": job, **msgspec.structs.asdict(schedule)}


def _rows(found: list[tuple[str, Schedule]]) -> Iterator[list[object]]:
    for job, one in found:
        when = one.cron or f"every {one.every_s:g} s"
        last = _moment(one.fired_ms) if one.fired_ms else "never"
        yield [job, when, _moment(one.next_ms), last, one.rounds, one.missed]


def _moment(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # whoever can write to the server wrote it
        return "an unknown time"
