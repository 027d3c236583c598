"""The HTTP API and the dashboard: serve, and --dashboard alongside a crawl."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from skitter.app import open_server
from skitter.cli.common import SERVER, Where, on_server
from skitter.cli.flags import LOGGING, Given, with_flags
from skitter.cli.parameters import Option
from skitter.cli.show.output import LINES, print_progress, say
from skitter.cli.tuning import serving_here, tune_collector
from skitter.engine.pulse import is_orphan
from skitter.errors import InfrastructureError, UsageError
from skitter.frontier.transport.connection import Server
from skitter.observe.logs import open_log
from skitter.settings import Settings, find_server, resolve
from skitter.trust import spelled

if TYPE_CHECKING:
    import socket


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


@with_flags(LOGGING)
def serve(
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65_535, help="0: any free port.")] = PORT,
    allow_host: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="A host name that browsers use for it; may be repeated."),
    ] = None,
    tls_cert: Annotated[Path | None, Option(help="Certificate (PEM), for HTTPS.")] = None,
    tls_key: Annotated[Path | None, Option(help="Its private key (PEM).")] = None,
    insecure: Annotated[
        bool, Option("--insecure", help="Listen on other addresses without TLS.")
    ] = False,
    workers: Annotated[
        int | None,
        Option(min=1, max=1000, help="Fetch pages on request (/api/scrape) with so many workers."),
    ] = None,
    where: Where = SERVER,
    *,
    given: Given,
) -> None:
    """Serve the HTTP API and the dashboard, until stopped.

    With --workers it also fetches the pages that `POST /api/scrape` asks for.
    """
    try:
        from skitter.server.serving import Address, listen, serving
        from skitter.server.site import open_site
        from skitter.server.webhooks import sending
    except ImportError:
        raise missing_server() from None
    address = Address(host, port, tls_cert, tls_key, tuple(allow_host or ()))
    address.check(insecure=insecure)
    listener, where = listen(address), where
    config = resolve(given)
    allow = config.fetch.allow_hosts
    LINES.set(config.log.format)

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
            with fetching(where, workers):
                await until_stopped(task)

    with serving_here(), open_log(config.log, to_stderr=not sys.stderr.isatty()):
        on_server(where, work)


@contextmanager
def fetching(where: Settings, workers: int | None) -> Iterator[None]:
    """Keep workers for pages on request, in processes of their own."""
    if workers is None:
        yield
        return
    words = [sys.executable, "-P", "-m", "skitter", "pages", str(workers)]
    with subprocess.Popen(
        [*words, "--parent", str(os.getpid())],
        env=environment_of(where),
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches only us
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait()


WithDashboard = Annotated[
    bool, Option("--dashboard", help="Also serve the dashboard, and print its address.")
]
LOOK_S = 1.0


@contextmanager
def dashboard(where: Settings, *, wanted: bool, out: str = "") -> Iterator[str]:
    """Serve from a separate process, so that a busy crawl and a busy dashboard do not share a core.
    `out`: where the items are; empty: as configured. Yields the link that logs a browser in."""
    if not wanted:
        yield ""
        return
    if not find_spec("starlette"):
        raise missing_server()
    words = [sys.executable, "-P", "-m", "skitter", "serve", "-", "--parent", str(os.getpid())]
    with subprocess.Popen(
        words,
        env=environment_of(where) | ({"SKITTER_OUT": out} if out else {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches only us
    ) as process:
        try:
            assert process.stdout
            address = process.stdout.readline().strip()
            if not address:
                raise InfrastructureError("the dashboard did not start: see above.")
            print_progress(f"Dashboard: {address}")
            yield address
        finally:
            process.terminate()
            process.wait()  # it may be the last to hold the server; Popen does not after Ctrl-C


def environment_of(where: Settings) -> dict[str, str]:
    """The environment for a process that uses the same server. The URL may hold a password, and
    anybody can read command lines."""
    environment = {**os.environ, "SKITTER_DIR": spelled(where.directory)}
    if where.redis_url is not None:
        environment["SKITTER_REDIS_URL"] = where.redis_url
    return environment


def serving_beside(parent: int) -> Callable[[], Coroutine[None, None, None]]:
    """The work of that process: serve until its parent stops it or dies."""

    async def work() -> None:
        with serving_here():
            await _serve(parent)

    return work


async def _serve(parent: int) -> None:
    from skitter.server.serving import Address, serving
    from skitter.server.site import open_site
    from skitter.server.webhooks import sending

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    listener, where, allow = _listen(), find_server(), resolve().fetch.allow_hosts
    async with open_server(where, progress=print_progress) as server:
        site, _ = await open_site(server, where)
        async with sending(server, allow), serving(site, listener):
            address = Address().url(listener)
            print(f"{address}#token={site.keyring.one_time_code()}", flush=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the terminal belongs to the crawl
            while not (stopped.is_set() or is_orphan(parent)):
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await stopped.wait()


def _listen() -> socket.socket:
    """Listen on the usual port, or else on any free one."""
    from skitter.server.serving import Address, listen

    try:
        return listen(Address(port=PORT))
    except UsageError:
        return listen(Address())
