"""The bookshop, open: a small HTTP/1.1 server on loopback.

async with BookShop(books=60) as shop:
    await crawl(shop.url)
    print(shop.log.entries)
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Final, Self

from skitter.demo.site.addresses import AccessLog
from skitter.demo.site.answers import Answers
from skitter.demo.site.catalogue import DEFAULT_BOOKS, make_catalogue
from skitter.demo.site.connection import Connection
from skitter.errors import BadOption, ServerFailed

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_PORT: Final = 8000

# A name, not an address: only a name can be written in capitals.
_LOOPBACK: Final = {"localhost": ("127.0.0.1", "::1"), "127.0.0.1": ("127.0.0.1",)}


class BookShop:
    """The site. `url` is known inside `async with`.

    `books` sets the size of the shop, `latency_s` delays every answer.
    """

    def __init__(
        self,
        *,
        books: int = DEFAULT_BOOKS,
        latency_s: float = 0.0,
        host: str = "localhost",
        port: int = 0,
        log_file: Path | None = None,
    ) -> None:
        if host not in _LOOPBACK:
            raise BadOption("host", host, "localhost or 127.0.0.1: the shop is for this machine")
        if not 0 <= latency_s <= 60:
            raise BadOption("latency_s", latency_s, "a number from 0 to 60")
        self.catalogue = make_catalogue(books)
        self.log = AccessLog(log_file)
        self._latency_s = latency_s
        self._host, self._port = host, port
        self._servers: list[asyncio.Server] = []
        self._connections: set[Connection] = set()

    @property
    def url(self) -> str:
        """Where a crawl begins."""
        return f"{self.origin}/"

    @property
    def origin(self) -> str:
        return f"http://{self._host}:{self.port}"

    @property
    def port(self) -> int:
        if not self._port:
            raise RuntimeError("the shop is not open: use it in `async with`.")
        return self._port

    # --- opening hours ----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        sockets = _listen(_LOOPBACK[self._host], self._port)
        self._port = sockets[0].getsockname()[1]
        self.log.open()
        answers = Answers(self.catalogue, origin=self.origin, latency_s=self._latency_s)
        loop = asyncio.get_running_loop()
        for listening in sockets:
            server = await loop.create_server(
                lambda: Connection(answers, self.log, self._connections), sock=listening
            )
            self._servers.append(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        connections = list(self._connections)
        for connection in connections:
            connection.hang_up()
        await asyncio.gather(*(connection.gone for connection in connections))
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        self.log.close()


def _listen(addresses: tuple[str, ...], port: int) -> list[socket.socket]:
    """One port, on all of these addresses that the machine has. Raises ServerFailed."""
    for _ in range(20):
        try:
            return _listen_once(addresses, port)
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE:  # else: taken on one address only
                raise ServerFailed(
                    f"the bookshop cannot open port {port} ({error.strerror}): choose another."
                ) from error
    raise ServerFailed("the bookshop found no free port: choose one with --port.")


def _listen_once(addresses: tuple[str, ...], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            if listening := _open_socket(address, port):
                sockets.append(listening)
                port = listening.getsockname()[1]
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets


def _open_socket(address: str, port: int) -> socket.socket | None:
    """A listening socket; None if the machine has no such address (IPv6 may be off)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((address, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        if family == socket.AF_INET6 and error.errno != errno.EADDRINUSE:
            return None
        raise
    return listening
