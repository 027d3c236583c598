"""A real proxy on loopback: HTTP, CONNECT and SOCKS5 on one port. It may be slow, want credentials,
be banned by a domain, fail as gateways do, or be dead."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

BLOCK_PAGE = b"<title>Just a moment...</title>"
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass
class Proxy:
    """`names`: where the hosts that it knows really are; others are dialled by their name."""

    names: dict[str, tuple[str, int]] = field(default_factory=dict)
    credentials: str = ""  # user:password; the user may be followed by parameters
    banned_by: set[str] = field(default_factory=set)
    delay_s: float = 0.0
    fails: int = 0  # the status with which it answers everything
    port: int = 0
    asked: Counter[str] = field(default_factory=Counter)  # requests that went through, per host
    lines: list[str] = field(default_factory=list)  # and how: CONNECT a.test:443, socks a.test:80
    users: list[str] = field(default_factory=list)
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0
    _server: asyncio.Server | None = None
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def url(self, scheme: str = "http", credentials: str = "") -> str:
        before = f"{credentials}@" if credentials else ""
        return f"{scheme}://{before}127.0.0.1:{self.port}"

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Also how it dies: the port stays its own for `start`."""
        if self._server:
            self._server.close()
        tasks, self._server = list(self._tasks), None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            with suppress(AttributeError):  # Python 3.11.2, of a connection over TLS that is gone
                writer.transport.abort()
        closed = (writer.wait_closed() for writer in self._writers)
        await asyncio.gather(*closed, return_exceptions=True)
        self._writers.clear()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(1)
            if first == b"\x05":
                await self._socks(reader, writer)
            else:
                while first and await self._http(first, reader, writer):
                    first = await reader.read(1)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    # --- HTTP -------------------------------------------------------------------------------------

    async def _http(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """One request; whether another may follow."""
        head = first + await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        tunnel = method == "CONNECT"
        url = urlsplit(f"//{target}" if tunnel else target)
        if refusal := self._refusal(head, url.hostname or ""):
            writer.write(refusal)
            await writer.drain()
            return True
        self.lines.append(f"{method} {target}")
        await self._delay()
        upstream, downstream = await self._dial(url.hostname or "", url.port or 80)
        if tunnel:
            writer.write(OK)
            await self._join(reader, writer, upstream, downstream)
            return False
        try:
            downstream.write(_forwarded(head))
            return await _answer(upstream, writer)
        finally:
            downstream.close()

    async def _delay(self) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.delay_s)
        finally:
            self.at_once -= 1

    def _refusal(self, head: bytes, host: str) -> bytes:
        user = _user(head)
        if self.credentials and not _matches(user, self.credentials):
            return _reply(407, b"", b"proxy-authenticate: Basic realm=proxy\r\n")
        if self.fails:
            return _reply(self.fails, b"the gateway has no peer")
        self.users.append(user.partition(":")[0])
        self.asked[host] += 1
        return _reply(403, BLOCK_PAGE) if host in self.banned_by else b""

    async def _dial(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.names.get(host, (host, port)))
        self._writers.append(writer)
        return reader, writer

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: asyncio.StreamReader,
        downstream: asyncio.StreamWriter,
    ) -> None:
        """Until either side has hung up."""
        both = {
            asyncio.create_task(_pump(reader, downstream)),
            asyncio.create_task(_pump(upstream, writer)),
        }
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            downstream.close()

    # --- SOCKS5, RFC 1928 and 1929 ----------------------------------------------------------------

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        offered = await reader.readexactly((await reader.readexactly(1))[0])
        way = 2 if self.credentials else 0
        writer.write(bytes([5, way if way in offered else 0xFF]))
        if way not in offered:
            return
        if self.credentials and not await self._log_in(reader, writer):
            return
        _, _, _, kind = await reader.readexactly(4)
        host = await _socks_host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2))
        if self.fails:
            writer.write(b"\x05\x01\x00\x01" + bytes(6))  # general failure
            return
        await self._delay()
        self.asked[host] += 1
        self.lines.append(f"socks {host}:{port}")
        try:
            upstream, downstream = await self._dial(host, port)
        except OSError:
            writer.write(b"\x05\x05\x00\x01" + bytes(6))  # refused
            return
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await self._join(reader, writer, upstream, downstream)

    async def _log_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await reader.readexactly(1)
        user, password = [
            (await reader.readexactly((await reader.readexactly(1))[0])).decode() for _ in range(2)
        ]
        good = _matches(f"{user}:{password}", self.credentials)
        self.users += [user] if good else []
        writer.write(b"\x01\x00" if good else b"\x01\x01")
        return good


def _forwarded(head: bytes) -> bytes:
    """The request as its server wants it. (Bodies are not passed on.)"""
    start, *lines = head.split(b"\r\n")
    method, target, version = start.split(b" ")
    path = target.partition(b"://")[2].partition(b"/")[2]
    kept = [one for one in lines if not one.lower().startswith((b"proxy-", b"connection"))]
    return b"\r\n".join([b" ".join([method, b"/" + path, version]), b"connection: close", *kept])


async def _answer(upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Pass one answer on; whether another may follow it."""
    head = await upstream.readuntil(b"\r\n\r\n")
    writer.write(head)
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    writer.write(await (upstream.readexactly(int(length[1])) if length else upstream.read(-1)))
    await writer.drain()
    return bool(length)


def _user(head: bytes) -> str:
    found = re.search(rb"(?i)\r\nproxy-authorization: basic (\S+)", head)
    return base64.b64decode(found[1]).decode() if found else ""


def _matches(given: str, wanted: str) -> bool:
    user, _, password = wanted.partition(":")
    return given.startswith(user) and given.endswith(f":{password}")


def _reply(status: int, body: bytes, headers: bytes = b"") -> bytes:
    length = b"content-length: %d\r\ncontent-type: text/html\r\n" % len(body)
    return b"HTTP/1.1 %d Whatever\r\n" % status + headers + length + b"\r\n" + body


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(2**16):
        sink.write(data)
        await sink.drain()


async def _socks_host(reader: asyncio.StreamReader, kind: int) -> str:
    if kind == 1:
        return ".".join(map(str, await reader.readexactly(4)))
    return (await reader.readexactly((await reader.readexactly(1))[0])).decode()


@asynccontextmanager
async def open_proxy(
    proxy: Proxy | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Proxy]:
    proxy = proxy or Proxy()
    await proxy.start(tls)
    try:
        yield proxy
    finally:
        with suppress(asyncio.CancelledError):
            await proxy.stop()
