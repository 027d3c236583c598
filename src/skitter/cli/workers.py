"""The workers of a job: logs, scale."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from enum import StrEnum
from typing import Annotated

import typer

from skitter.cli.common import Directory, Job, Json, Redis, on_job, on_server, settings
from skitter.cli.console import out
from skitter.cli.display import action_line, event_line
from skitter.cli.output import answer, emit_line, print_progress
from skitter.errors import BadOption, SkitterError
from skitter.frontier.admin.actions import NewAction, read_actions
from skitter.frontier.admin.log import EVENTS_KEPT, LOG_PAGE, Event, read_log
from skitter.frontier.admin.workers import (
    AUTO,
    FETCHING,
    MAX_WORKERS,
    Change,
    Heartbeat,
    Wish,
    changes_by,
    describe_changes,
    live_machines,
    live_workers,
    read_wish,
    set_wanted_workers,
)
from skitter.frontier.frontier import Frontier
from skitter.logs import loudness
from skitter.report import some
from skitter.settings import Settings

FOLLOW_S = 0.3


# --- logs -----------------------------------------------------------------------------------------


class Level(StrEnum):
    """Log levels, as workers name them."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def logs(
    job: Job,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Number of lines from the end.")
    ] = 50,
    level: Annotated[Level, typer.Option(help="Minimum level.")] = Level.DEBUG,
    worker: Annotated[
        str | None, typer.Option(help="Only workers whose name contains this.")
    ] = None,
    actions: Annotated[
        bool, typer.Option("--actions", help="Show who changed the job instead: the action log.")
    ] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Show the log of all workers on all machines.

    Oldest lines first; times are UTC.
    """
    if actions:
        _show_actions(settings(redis, directory), job, lines, as_json=as_json)
        return

    def wanted(event: Event) -> bool:
        return loudness(event.level) >= loudness(level) and (worker or "") in event.worker

    async def work(frontier: Frontier) -> None:
        events, last = await tail(frontier, lines, wanted)
        _show_events(events, as_json=as_json)
        if not follow:
            if not events and not as_json:
                print_progress(
                    f"{job}: nothing was logged{' that matches' if last != '-' else ''}."
                )
            return
        async for fresh in follow_log(frontier, last):
            _show_events([event for event in fresh if wanted(event)], as_json=as_json)

    on_job(settings(redis, directory), job, work)


def _show_actions(where: Settings, job: str, lines: int, *, as_json: bool) -> None:
    """Works for a purged job too."""
    found = on_server(where, lambda server: read_actions(server, job, limit=lines))
    for one in reversed(found):
        if as_json:
            emit_line(one)
        else:
            out.print(action_line(one))
    if not found and not as_json:
        print_progress(f"{job}: nobody has changed it.")


def _show_events(events: list[Event], *, as_json: bool) -> None:
    for event in events:
        if as_json:
            emit_line(event)
        else:
            out.print(event_line(event))
    sys.stdout.flush()  # to a pipe too: somebody follows it


async def tail(
    frontier: Frontier, count: int, wanted: Callable[[Event], bool] = lambda _: True
) -> tuple[list[Event], str]:
    """The last wanted events, and the id to continue from."""
    kept: deque[Event] = deque(maxlen=min(count, 2 * EVENTS_KEPT))
    last = "-"
    while page := await read_log(frontier, last, LOG_PAGE):
        kept.extend(event for event in page if wanted(event))
        last = page[-1].id
    return list(kept), last


async def follow_log(
    frontier: Frontier, last: str, *, every_s: float = FOLLOW_S
) -> AsyncGenerator[list[Event]]:
    """Events after `last`, for ever; if the server is down, waits for it."""
    away = False
    while True:
        try:
            events = await read_log(frontier, last, LOG_PAGE)
        except SkitterError as error:
            if not error.retryable:
                raise
            if not away:
                print_progress(f"{error} Waiting for it.")
            away, events = True, []
        else:
            away = False
        if events:
            last = events[-1].id
            yield events
        if len(events) < LOG_PAGE:
            await asyncio.sleep(every_s)


# --- scale ----------------------------------------------------------------------------------------


def scale(
    job: Job,
    workers: Annotated[
        str,
        typer.Argument(
            metavar="N|auto", help="Processes in all, or auto (by queue depth and CPU)."
        ),
    ],
    per_machine: Annotated[
        bool, typer.Option("--per-machine", help="N is for each machine, also those to come.")
    ] = False,
    look: Annotated[
        bool, typer.Option("--preview", help="Only say what would start and stop.")
    ] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Set how many workers a job has.

    The number is a total: running machines share it out and follow at once, also when a machine
    joins or leaves. It holds until the next `scale`.
    """
    wish = _parse_wish(workers, per_machine=per_machine)

    async def work(frontier: Frontier) -> tuple[Wish | None, list[Heartbeat], list[Change], bool]:
        was, beats = await read_wish(frontier), await live_workers(frontier)
        changes = changes_by(wish, beats, await live_machines(frontier))
        if not look:
            await set_wanted_workers(frontier, wish)
        alive = [one for one in beats if one.kind in FETCHING]
        return (
            was,
            alive,
            changes,
            bool(frontier.layout.fingerprinter),
        )  # only Scrapy's jobs have it

    detail = f"workers={workers}{' per_machine' * per_machine}"
    action = None if look else NewAction(job, "scale", detail)
    was, alive, changes, is_scrapys = on_job(settings(redis, directory), job, work, action=action)
    scaled = {
        "job": job,
        "was": was,
        "wanted": wish,
        "at_work": len(alive),
        "machines": changes,
    }
    now = f"{len(alive):,} running now"
    effect = describe_changes(changes)
    sentence = f"{job}: {_describe_wish(wish)} (before: {_describe_wish(was)}); {now}"
    sentence += f": {effect}." if effect else "."
    if is_scrapys or any(one.kind == "scrapy" for one in alive):
        sentence += " Scrapy's nodes do not follow: start and stop `scrapy crawl` yourself."
    answer(scaled, sentence, as_json=as_json)


def _parse_wish(text: str, *, per_machine: bool) -> Wish:
    if text == "auto":
        return AUTO
    if text == "0":
        raise BadOption("workers", text, "at least 1; `skitter pause JOB` stops them all")
    if not text.isdecimal() or not 1 <= int(text) <= MAX_WORKERS:
        raise BadOption("workers", text, f"a number from 1 to {MAX_WORKERS:,}, or auto")
    return Wish(int(text), per_machine=per_machine)


def _describe_wish(wish: Wish | None) -> str:
    if wish is None:
        return "not set"
    if not wish.workers:
        return "automatic"
    return f"{some(wish.workers, 'worker')} {'per machine' if wish.per_machine else 'in all'}"
