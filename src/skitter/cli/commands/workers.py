"""The workers of a job: logs, scale, top."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

from rich.console import Console
from rich.live import Live

from skitter.cli.common import SERVER, Job, Json, Where, on_job, on_server
from skitter.cli.parameters import Argument, Option
from skitter.cli.show.console import out
from skitter.cli.show.display import Screen, action_line, event_line, plain_line, top_view
from skitter.cli.show.output import answer, emit_json, emit_line, print_progress, say
from skitter.crawl.watch import Overview, Watcher
from skitter.engine.pulse import cancel_all
from skitter.errors import BadOption, SkitterError
from skitter.frontier.frontier import Frontier
from skitter.frontier.records.operators import NewAction, read_actions
from skitter.frontier.transport.connection import Server
from skitter.frontier.workers import (
    AUTO,
    EVENTS_KEPT,
    FETCHING,
    LOG_PAGE,
    MAX_WORKERS,
    Change,
    Event,
    Heartbeat,
    Wish,
    changes_by,
    describe_changes,
    live_machines,
    live_workers,
    read_log,
    read_wish,
    set_wanted_workers,
)
from skitter.observe.logs import loudness
from skitter.observe.report import some
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
    follow: Annotated[bool, Option("--follow", "-f", help="Keep printing new lines.")] = False,
    lines: Annotated[
        int, Option("--lines", "-n", min=0, help="Number of lines from the end.")
    ] = 50,
    level: Annotated[Level, Option(help="Minimum level.")] = Level.DEBUG,
    worker: Annotated[str | None, Option(help="Only workers whose name contains this.")] = None,
    actions: Annotated[
        bool, Option("--actions", help="Show who changed the job instead: the action log.")
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Show the log of all workers on all machines.

    Oldest lines first; times are UTC.
    """
    if actions:
        _show_actions(where, job, lines, as_json=as_json)
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

    on_job(where, job, work)


def _show_actions(where: Settings, job: str, lines: int, *, as_json: bool) -> None:
    """Works for a purged job too."""
    found = on_server(where, lambda server: read_actions(server, job, limit=lines))
    for action in reversed(found):
        if as_json:
            emit_line(action)
        else:
            out.print(action_line(action))
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
        Argument(metavar="N|auto", help="Processes in all, or auto (by queue depth and CPU)."),
    ],
    per_machine: Annotated[
        bool, Option("--per-machine", help="N is per machine, including machines that join later.")
    ] = False,
    look: Annotated[bool, Option("--preview", help="Only say what would start and stop.")] = False,
    where: Where = SERVER,
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
        alive = [beat for beat in beats if beat.kind in FETCHING]
        return (
            was,
            alive,
            changes,
            bool(frontier.layout.fingerprinter),
        )  # only Scrapy's jobs have it

    detail = f"workers={workers}{' per_machine' * per_machine}"
    action = None if look else NewAction(job, "scale", detail)
    was, alive, changes, is_scrapys = on_job(where, job, work, action=action)
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
    if is_scrapys or any(beat.kind == "scrapy" for beat in alive):
        sentence += " Scrapy's nodes do not follow: start and stop `scrapy crawl` yourself."
    if any(beat.kind == "celery" for beat in alive):
        sentence += " On Celery a worker is a pump, which takes one slot of a Celery worker."
    answer(scaled, sentence, as_json=as_json)


def _parse_wish(text: str, *, per_machine: bool) -> Wish:
    if text == "auto":
        return AUTO
    if text == "0":
        raise BadOption("workers", text, "at least 1; `skitter pause JOB` stops them all")
    if not text.isdecimal() or len(text) > 4 or not 1 <= int(text) <= MAX_WORKERS:
        raise BadOption("workers", text, f"a number from 1 to {MAX_WORKERS:,}, or auto")
    return Wish(int(text), per_machine=per_machine)


def _describe_wish(wish: Wish | None) -> str:
    if wish is None:
        return "not set"
    if not wish.workers:
        return "automatic"
    return f"{some(wish.workers, 'worker')} {'per machine' if wish.per_machine else 'in all'}"


Look = Callable[[], Coroutine[None, None, list[Overview]]]
EVENTS_SHOWN = 100
REFRESH_S = 1.0
SLOW_S = 3.0
PLAIN_WIDTH = 200


def top(
    job: Annotated[str | None, Argument(metavar="[JOB]", help="Default: all jobs.")] = None,
    once: Annotated[bool, Option("--once", help="Print once and exit.")] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Watch jobs, workers, rates and the log live.

    Press q to leave. Without a terminal, it prints one line per job every second.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, PLAIN_WIDTH)
    screen = console.is_terminal and not console.is_dumb_terminal and not once and not as_json

    async def work(server: Server) -> None:
        watcher = Watcher(server, log_lines=EVENTS_SHOWN)

        async def look() -> list[Overview]:
            return [await watcher.look(job)] if job else await watcher.look_at_all(print_progress)

        if screen:
            await _fill_screen(look, console, title=server.where)
        elif once and as_json:
            emit_json(await look())
        elif once:
            width = console.width if console.is_terminal else None
            console.print(top_view(await look(), width=width))
        else:
            await _print_lines(look, as_json=as_json)

    on_server(where, work)


async def _print_lines(look: Look, *, as_json: bool) -> None:
    while True:
        for job in await look():
            if as_json:
                emit_line(job)
            else:
                say(plain_line(job))
        sys.stdout.flush()
        await asyncio.sleep(REFRESH_S)


async def _fill_screen(look: Look, console: Console, *, title: str) -> None:
    """Paint until the user quits, which works even while the server does not answer."""
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, leave.set)
    with _keys(leave), Live(console=console, screen=True, auto_refresh=False) as live:
        leaving = asyncio.create_task(leave.wait())
        painting = asyncio.create_task(_paint(look, live, title))
        await asyncio.wait({leaving, painting}, return_when=asyncio.FIRST_COMPLETED)
        await cancel_all([leaving, painting])
    if not painting.cancelled() and (failure := painting.exception()):
        raise failure


async def _paint(look: Look, live: Live, title: str) -> None:
    looks: list[Overview] = []

    def paint(note: str = "") -> None:
        view = top_view(looks, title=title, note=note, screen=Screen(*live.console.size))
        live.update(view, refresh=True)

    while True:
        looking = asyncio.create_task(look())
        try:
            while not (await asyncio.wait({looking}, timeout=SLOW_S))[0]:
                paint("The server is slow to answer.")
            looks = looking.result()
            paint()
        except SkitterError as error:
            if not error.retryable:
                raise
            paint(str(error))
        finally:
            looking.cancel()
        await asyncio.sleep(REFRESH_S)


@contextmanager
def _keys(leave: asyncio.Event) -> Iterator[None]:
    """q quits. Meanwhile keys are read one by one, without echo."""
    if not sys.stdin.isatty():
        yield
        return
    keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()

    def read() -> None:
        typed = os.read(keyboard, 1024)
        if not typed or typed[:1] in b"qQ":
            leave.set()

    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, read)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
