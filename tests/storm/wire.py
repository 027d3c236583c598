"""The wire between processes and their server: it can be cut, held up, or lose an answer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


GREETINGS = 8  # answers to a process that starts, before it is at work


@dataclass(eq=False)
class Link:
    """One connection through the wire."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    loses_answer: bool = False
    answers: int = 0  # that have come through

    def cut(self) -> None:
        for end in (self.client, self.server):
            end.transport.abort()


@dataclass
class Wire:
    """A TCP proxy in front of a server that may be away."""

    server_port: int
    port: int = 0
    links: list[Link] = field(default_factory=list)
    lost: int = 0  # answers
    cuts: int = 0
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def used(self) -> list[Link]:
        """Those that have answered a few calls. If every process lost its first connection before
        that, as it might on a busy machine, all of a storm would be processes that start."""
        return [link for link in self.links if link.answers >= GREETINGS]

    def hold(self, seconds: float) -> None:
        """Nothing passes for so long."""
        self._open.clear()
        asyncio.get_running_loop().call_later(seconds, self._open.set)

    def release(self) -> None:
        self._open.set()

    def cut(self, links: list[Link]) -> None:
        for link in links:
            self.links.remove(link)
            link.cut()
        self.cuts += len(links)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:  # it is away
            writer.transport.abort()
            return
        link = Link(writer, server)
        self.links.append(link)
        pumps = {
            asyncio.create_task(self._pump(reader, server, link, answers=False)),
            asyncio.create_task(self._pump(answers, writer, link, answers=True)),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in pumps:
                one.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            with suppress(ValueError):  # it was cut
                self.links.remove(link)
            link.cut()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        link: Link,
        *,
        answers: bool,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                await self._open.wait()
                if answers and link.loses_answer:
                    self.lost += 1
                    return
                link.answers += answers
                sink.write(data)
                await sink.drain()


@asynccontextmanager
async def open_wire(server_port: int) -> AsyncIterator[Wire]:
    wire = Wire(server_port)
    wire._open.set()
    listener = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = listener.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        wire._open.set()
        listener.close()
        for link in list(wire.links):
            link.cut()
