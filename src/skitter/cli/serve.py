"""The HTTP API and the dashboard: serve."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from skitter.cli.common import Directory, Redis, on_server, settings
from skitter.cli.neighbours import serving_here
from skitter.cli.output import say
from skitter.engine.collector import tune_collector
from skitter.errors import UsageError
from skitter.frontier.connection import Server
from skitter.settings import resolve

PORT = 8765


def missing_server() -> UsageError:
    from skitter.extras import install  # slow to import, and rarely needed

    how = install("server")
    return UsageError(f"the HTTP server needs Starlette and uvicorn: install them with `{how}`.")


async def until_stopped(task: asyncio.Task[None]) -> None:
    """Wait for Ctrl-C, SIGTERM, or the end of the task."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free port.")] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name that browsers use for it; may be repeated."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM), for HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on other addresses without TLS.")
    ] = False,
    redis: Redis = None,
    directory: Directory = None,
) -> None:
    """Serve the HTTP API and the dashboard, until stopped."""
    try:
        from skitter.server.running import Address, listen, serving
        from skitter.server.site import open_site
        from skitter.server.webhooks import sending
    except ImportError:
        raise missing_server() from None
    address = Address(host, port, tls_cert, tls_key, tuple(allow_host or ()))
    address.check(insecure=insecure)
    listener, where = listen(address), settings(redis, directory)
    allow = resolve().fetch.allow_hosts

    async def work(server: Server) -> None:
        known = address.names
        site, own = await open_site(server, where, allowed_hosts=known, is_tls=address.is_tls)
        url = address.url(listener)
        every = "on all addresses; " if address.is_every else ""
        async with sending(server, allow), serving(site, listener, address) as task:
            say(f"Serving {url} ({every}Ctrl-C stops it).")
            if own.is_new and sys.stdout.isatty():  # else it would be in a log for good
                say(f"Token, shown this once and kept in {own.file}: {own.text}")
            else:
                say(f"The token is in {own.file}; `skitter token new` makes others.")
            say(f"Log a browser in, once: {url}#token={site.keyring.one_time_code()}")
            sys.stdout.flush()
            tune_collector()
            await until_stopped(task)

    with serving_here():
        on_server(where, work)
