"""--dashboard: the HTTP server alongside a crawl."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from skitter.app import open_server
from skitter.cli.neighbours import serving_here
from skitter.cli.output import print_progress
from skitter.cli.serve import PORT, missing_server
from skitter.engine.pulse import is_orphan
from skitter.errors import InfrastructureError, UsageError
from skitter.settings import Settings, find_server, resolve
from skitter.trust import spelled

if TYPE_CHECKING:
    import socket

WithDashboard = Annotated[
    bool, typer.Option("--dashboard", help="Also serve the dashboard, and print its address.")
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
    from skitter.server.running import Address, serving
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
    from skitter.server.running import Address, listen

    try:
        return listen(Address(port=PORT))
    except UsageError:
        return listen(Address())
