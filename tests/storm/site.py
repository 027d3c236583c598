"""A site whose link graph is known: pages by number, on several hosts, some of them unwell."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOSTS = 4


@dataclass
class Site:
    """Page n leads to 2n + 1 and 2n + 2, and to some by chance: all can be reached from page 0."""

    pages: int
    chance: random.Random
    ports: list[int] = field(default_factory=list)
    asked: Counter[int] = field(default_factory=Counter)

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{self.ports[number % HOSTS]}/{number}"

    @property
    def seeds(self) -> list[str]:
        """One of each host, which makes it part of the crawl."""
        return [self.url(number) for number in range(HOSTS)]

    def links(self, number: int) -> list[int]:
        near = [2 * number + 1, 2 * number + 2]
        far = random.Random(number).sample(range(self.pages), k=min(5, self.pages))
        return [one for one in [*near, *far] if one < self.pages]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                if not await self._answer(line.split()[1].decode(), writer):
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection lasts."""
        if not path[1:].isdigit():
            writer.write(_reply(404, b""))
            return True
        number = int(path[1:])
        self.asked[number] += 1
        if self.asked[number] < 3 and number % 29 == 7:
            return False  # it hangs up
        if self.asked[number] < 3 and number % 31 == 5:
            writer.write(_reply(500, b"not now"))
            return True
        links = "".join(f"<a href='{self.url(one)}'>{one}</a>" for one in self.links(number))
        await asyncio.sleep(self.chance.uniform(0, 0.02))
        writer.write(_reply(200, f"<h1>{number}</h1>{links}".encode()))
        await writer.drain()
        return True


def _reply(status: int, body: bytes) -> bytes:
    head = b"HTTP/1.1 %d Whatever\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


@asynccontextmanager
async def open_site(pages: int, chance: random.Random) -> AsyncIterator[Site]:
    site = Site(pages, chance)
    servers = [await asyncio.start_server(site.serve, "127.0.0.1", 0) for _ in range(HOSTS)]
    site.ports = [one.sockets[0].getsockname()[1] for one in servers]
    try:
        yield site
    finally:
        for one in servers:
            one.close()
