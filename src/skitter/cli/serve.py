"""The HTTP API and the dashboard: serve."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from skitter.cli.common import Directory, Redis, on_server, settings
from skitter.cli.output import say
from skitter.errors import UsageError
from skitter.frontier.connection import Server

PORT = 8765
MISSING = (
    "the HTTP server needs Starlette and uvicorn: "
    "install them with `pip install 'skitter[server]'`."
)


async def until_stopped(task: asyncio.Task[None]) -> None:
    """Until Ctrl-C, SIGTERM, or the end of the task."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name by which browsers reach it; may be repeated."),
    ] = None,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Serve the HTTP API and the dashboard, until stopped."""
    try:
        from skitter.server.running import listen, serving
        from skitter.server.site import Site
    except ImportError:
        raise UsageError(MISSING) from None
    listener = listen(host, port)

    async def work(server: Server) -> None:
        site = Site(server, allowed_hosts=frozenset(map(str.lower, allow_host or ())))
        name = f"[{host}]" if ":" in host else host
        say(f"Serving http://{name}:{listener.getsockname()[1]}/ - Ctrl-C stops it.")
        async with serving(site, listener) as task:
            await until_stopped(task)

    on_server(settings(redis, directory), work)
