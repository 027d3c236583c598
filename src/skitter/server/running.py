"""uvicorn around the application."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from skitter.errors import UsageError
from skitter.server.application import application

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from skitter.server.site import Site

#: What is under way when it ends gets so long.
GRACE_S = 2


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that what is wrong with the address is told before anything else."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. "
            "Choose another with --host or --port."
        ) from None
    return listener


@asynccontextmanager
async def serving(site: Site, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Serve for as long as this lasts. The task ends before that only if something is broken."""
    server = _Quiet(
        uvicorn.Config(
            application(site),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield task
    finally:
        server.should_exit = True
        await task


class _Quiet(uvicorn.Server):
    """Leaves signals to whoever started it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
