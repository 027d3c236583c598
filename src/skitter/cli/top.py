"""A live view of jobs and workers: top."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from skitter.cli.common import Directory, Json, Redis, on_server, settings
from skitter.cli.display import Look, Screen, plain_line, top_view
from skitter.cli.output import emit_json, emit_line, say
from skitter.engine.pulse import cancel_all
from skitter.errors import SkitterError
from skitter.frontier.admin.eta import Bound, slowest_host
from skitter.frontier.admin.jobs import list_jobs, open_job
from skitter.frontier.admin.log import LOG_PAGE, Event, read_log
from skitter.frontier.admin.workers import live_workers
from skitter.frontier.connection import Server
from skitter.frontier.frontier import Frontier
from skitter.frontier.wire import side_by_side

#: The rate is that of the last seconds: a polite crawl does a page now and then.
WINDOW_S = 10.0
#: Looking for the slowest host takes a while when there are many.
BOUND_EVERY_S = 5.0
EVENTS_SHOWN = 100
EVENTS_SINCE_S = 3600.0
REFRESH_S = 1.0
SLOW_S = 3.0
PLAIN_WIDTH = 200


def top(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Default: all jobs.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Live view of jobs, workers, rates and the log. Press q to leave.

    Without a terminal, print one line per job every second.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, PLAIN_WIDTH)
    screen = console.is_terminal and not console.is_dumb_terminal and not once and not as_json

    async def work(server: Server) -> None:
        watcher = Watcher(server, job)
        if screen:
            await _fill_screen(watcher, console)
        elif once and as_json:
            emit_json(await watcher.look())
        elif once:
            console.print(top_view(await watcher.look(), {}))
        else:
            await _print_lines(watcher, as_json=as_json)

    on_server(settings(redis, directory), work)


async def _print_lines(watcher: Watcher, *, as_json: bool) -> None:
    while True:
        for look in await watcher.look():
            if as_json:
                emit_line(look)
            else:
                say(plain_line(look, watcher.before.get(look.job)))
        sys.stdout.flush()
        await asyncio.sleep(REFRESH_S)


async def _fill_screen(watcher: Watcher, console: Console) -> None:
    """Until somebody wants to leave, also while the server does not answer."""
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, leave.set)
    with _keys(leave), Live(console=console, screen=True, auto_refresh=False) as live:
        leaving = asyncio.create_task(leave.wait())
        painting = asyncio.create_task(_paint(watcher, live))
        await asyncio.wait({leaving, painting}, return_when=asyncio.FIRST_COMPLETED)
        await cancel_all([leaving, painting])
    if not painting.cancelled() and (failure := painting.exception()):
        raise failure


async def _paint(watcher: Watcher, live: Live) -> None:
    looks: list[Look] = []

    def paint(note: str = "") -> None:
        screen, title = Screen(*live.console.size), watcher.server.where
        view = top_view(looks, watcher.before, title=title, note=note, screen=screen)
        live.update(view, refresh=True)

    while True:
        looking = asyncio.create_task(watcher.look())
        try:
            while not (await asyncio.wait({looking}, timeout=SLOW_S))[0]:
                paint("The server takes its time to answer.")
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
    """q leaves. Keys come one by one, and unseen, while this lasts."""
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


@dataclass(slots=True)
class Watcher:
    """Looks at one job or all, every second. The server is asked only for what is new."""

    server: Server
    job: str | None
    _looks: dict[str, deque[Look]] = field(default_factory=dict)
    _events: dict[str, tuple[str, deque[Event]]] = field(default_factory=dict)
    _bounds: dict[str, tuple[float, Bound | None]] = field(default_factory=dict)

    @property
    def before(self) -> dict[str, Look]:
        """The oldest look at each job that still counts."""
        return {job: looks[0] for job, looks in self._looks.items()}

    async def look(self) -> list[Look]:
        jobs = [self.job] if self.job else await list_jobs(self.server)
        found = await side_by_side(map(self._look_at, jobs))
        looks = [look for look in found if look]
        self._looks = {look.job: self._remembered(look) for look in looks}
        return looks

    def _remembered(self, look: Look) -> deque[Look]:
        looks = self._looks.get(look.job, deque())
        looks.append(look)
        while looks[0].at < look.at - WINDOW_S:
            looks.popleft()
        return looks

    async def _look_at(self, job: str) -> Look | None:
        try:
            return await self._look(await open_job(self.server, job))
        except SkitterError as error:  # damaged or purged by now: show the others all the same
            if self.job or error.retryable:
                raise
            return None

    async def _look(self, frontier: Frontier) -> Look:
        stats = await frontier.stats()
        now = await frontier.server_time()
        return Look(
            at=now,
            stats=stats,
            processes=await live_workers(frontier),
            events=await self._read_events(frontier, now),
            bound=None if stats.finished else await self._bound(frontier, now),
        )

    async def _read_events(self, frontier: Frontier, now: float) -> list[Event]:
        first = f"{int((now - EVENTS_SINCE_S) * 1000)}-0"
        last, events = self._events.get(frontier.job, (first, deque(maxlen=EVENTS_SHOWN)))
        while page := await read_log(frontier, last, LOG_PAGE):
            events.extend(page)
            last = page[-1].id
        self._events[frontier.job] = last, events
        return list(events)

    async def _bound(self, frontier: Frontier, now: float) -> Bound | None:
        looked_at, bound = self._bounds.get(frontier.job, (0.0, None))
        if now - looked_at > BOUND_EVERY_S:
            bound = await slowest_host(frontier)
            self._bounds[frontier.job] = now, bound
        return bound
