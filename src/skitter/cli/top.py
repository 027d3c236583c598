"""A live view of jobs and workers: top."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from skitter.cli.common import Directory, Json, Redis, on_server, settings
from skitter.cli.display import Screen, plain_line, top_view
from skitter.cli.output import emit_json, emit_line, print_progress, say
from skitter.engine.pulse import cancel_all
from skitter.errors import SkitterError
from skitter.frontier.connection import Server
from skitter.watch import Overview, Watcher

Look = Callable[[], Coroutine[None, None, list[Overview]]]
EVENTS_SHOWN = 100
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

    on_server(settings(redis, directory), work)


async def _print_lines(look: Look, *, as_json: bool) -> None:
    while True:
        for one in await look():
            if as_json:
                emit_line(one)
            else:
                say(plain_line(one))
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
