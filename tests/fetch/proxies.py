"""Upstream proxies on loopback: http (CONNECT and whole requests) and SOCKS5, with a password."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

USER, PASSWORD = "ann", "se:cret"
_BASIC = b"Basic " + b64encode(f"{USER}:{PASSWORD}".encode())


@dataclass
class UpstreamProxy:
    """Knows each name as 127.0.0.1; remembers what it was asked for."""

    asked: list[str] = field(default_factory=list)
    port: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def url(self, scheme: str, *, password: str = PASSWORD) -> str:
        return f"{scheme}://{USER}:{password.replace(':', '%3A')}@127.0.0.1:{self.port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(1)
            await (self._socks if first == b"\x05" else self._http)(first, reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def _http(self, first: bytes, reader, writer) -> None:
        head = first + await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.asked.append(f"{method} {target}")
        if _BASIC not in head:
            writer.write(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n")
            return
        if method == "CONNECT":
            site = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 Yes\r\n\r\n")
        else:
            authority, _, path = target.removeprefix("http://").partition("/")
            site = await asyncio.open_connection("127.0.0.1", int(authority.rpartition(":")[2]))
            site[1].write(head.replace(target.encode(), f"/{path}".encode(), 1))
        await _both(reader, writer, *site)

    async def _socks(self, first: bytes, reader, writer) -> None:
        count = (await reader.readexactly(1))[0]
        assert 2 in await reader.readexactly(count)
        writer.write(b"\x05\x02")
        await reader.readexactly(1)
        user = await reader.readexactly((await reader.readexactly(1))[0])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        if (user, password) != (USER.encode(), PASSWORD.encode()):
            writer.write(b"\x01\x01")
            return
        writer.write(b"\x01\x00")
        kind = (await reader.readexactly(4))[3]
        host = await reader.readexactly(4 if kind == 1 else (await reader.readexactly(1))[0])
        port = int.from_bytes(await reader.readexactly(2))
        self.asked.append(f"socks {host.decode() if kind == 3 else host.hex('.')}:{port}")
        site = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        await _both(reader, writer, *site)


async def _both(reader, writer, site_reader, site_writer) -> None:
    async def pour(source: asyncio.StreamReader, drain: asyncio.StreamWriter) -> None:
        while block := await source.read(2**16):
            drain.write(block)
            await drain.drain()

    tasks = [
        asyncio.create_task(pour(reader, site_writer)),
        asyncio.create_task(pour(site_reader, writer)),
    ]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    site_writer.close()


@asynccontextmanager
async def upstream_proxy(tls=None) -> AsyncIterator[UpstreamProxy]:
    proxy = UpstreamProxy()
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
        await server.wait_closed()
