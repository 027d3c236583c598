"""A web site on loopback that does as it is told, also what no decent server does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

Page = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request, and the wire to answer it on."""

    def __init__(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.head, self.reader, self.writer = head, reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_hung_up(self) -> None:
        await self.reader.read()


class Site:
    """Pages by path. Records the requests, and which connections the client closed."""

    def __init__(self, pages: Mapping[str, bytes | Page]):
        self.pages = pages
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    def url(self, path: str = "/", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [head.split()[1].decode() for head in self.requests]

    async def seen(self, path: str) -> None:
        """Wait until somebody has asked for it."""
        while path not in self.paths:
            self.asked.clear()
            await self.asked.wait()

    async def until_open(self, most: int) -> None:
        """Wait until the client has hung up on all connections but so many."""
        while len(self._tasks) > most:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Tasks of our own: asyncio's server logs an error for each that is cancelled at the end.
        self.connections += 1
        self._writers.append(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            with suppress(AttributeError):  # Python 3.11.2, of a connection over TLS that is gone
                writer.transport.abort()  # whatever the client has not read by now, it never will
        closed = (writer.wait_closed() for writer in self._writers)
        await asyncio.gather(*closed, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head)
        self.asked.set()
        page = self.pages.get(head.split()[1].decode(), reply(b"", status=404))
        if isinstance(page, bytes):
            writer.write(page)
            await writer.drain()
            return b"\r\nconnection: close" not in page
        await page(Exchange(head, reader, writer))
        return False


@asynccontextmanager
async def serve(
    pages: Mapping[str, bytes | Page],
    *,
    tls: ssl.SSLContext | None = None,
    address: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[Site]:
    site = Site(pages)
    server = await asyncio.start_server(site.accept, address, port, ssl=tls, limit=2**20)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        await site.stop()
        await server.wait_closed()


def reply(body: bytes = b"", *headers: str, status: int = 200) -> bytes:
    """A decent answer: its length is right."""
    return raw(f"content-length: {len(body)}", *headers, body=body, status=status)


def raw(*headers: str, body: bytes = b"", status: int = 200) -> bytes:
    """An answer with just these headers."""
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode() + body


def redirect(location: str, status: int = 302) -> bytes:
    return reply(b"", f"location: {location}", status=status)


def then_close(data: bytes) -> Page:
    """Write this, whatever it is, and hang up."""

    async def page(exchange: Exchange) -> None:
        await exchange.send(data)

    return page


def then_wait(data: bytes) -> Page:
    """Write this, and nothing more until the client gives up."""

    async def page(exchange: Exchange) -> None:
        await exchange.send(data)
        await exchange.until_hung_up()
        raise ConnectionResetError  # counted as hung up

    return page


def drip(start: bytes, drop: bytes, every_s: float = 0.02) -> Page:
    """Never silent for long, never done."""

    async def page(exchange: Exchange) -> None:
        await exchange.send(start)
        while True:
            await exchange.send(drop)
            await asyncio.sleep(every_s)

    return page


def flood(start: bytes, block: bytes) -> Page:
    """As fast as the wire takes it, without an end."""

    async def page(exchange: Exchange) -> None:
        await exchange.send(start)
        while True:
            await exchange.send(block)

    return page
