"""A site whose link graph is known: pages by number, on several hosts, some unwell, some poison."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from clocks import arrived_at
from hostile import site as hostile
from hostile.test_hostile_site import DEAD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOSTS = 4
#: The last host asks for a delay in its robots.txt, and has one page in so many.
DELAY_S, POLITE_EACH = 1.0, 250
#: It sees when requests arrive, which on a busy machine is not when they left.
SMALLEST_S = 0.5 * DELAY_S
#: Pages of the hostile site that are dead at once, and are not tried again.
POISON = ("nested", "exits", "endless-body", "redirect-loop?again", "header-flood")


@dataclass
class Site:
    """Page n leads to 2n + 1 and 2n + 2, and to some by chance: all can be reached from page 0.

    Pages with numbers from `pages` on are islands: nothing leads there.
    """

    pages: int
    chance: random.Random
    poison: tuple[str, ...] = ()
    ports: list[int] = field(default_factory=list)
    asked: Counter[int] = field(default_factory=Counter)
    polite: list[float] = field(default_factory=list)  # moments of the host that asks for a delay

    @property
    def hosts(self) -> list[str]:
        """Addresses of their own: Scrapy does not tell ports apart."""
        return [f"127.0.0.{1 + n}:{port}" for n, port in enumerate(self.ports)]

    def url(self, number: int) -> str:
        polite = number % POLITE_EACH == HOSTS - 1
        return f"http://{self.hosts[HOSTS - 1 if polite else number % (HOSTS - 1)]}/{number}"

    @property
    def seeds(self) -> list[str]:
        """One of each host, which makes it part of the crawl."""
        return [self.url(number) for number in range(HOSTS)]

    @property
    def dead(self) -> dict[str, str]:
        """Dead letters, and a pattern of the reason for each."""
        return {f"http://{self.hosts[0]}/evil/{name}": DEAD[name] for name in self.poison}

    @property
    def gaps(self) -> list[tuple[float, float]]:
        """Between two requests to the host that asks for a delay: how long, and until when."""
        return [(after - before, after) for before, after in pairwise(sorted(self.polite))]

    def links(self, number: int) -> list[str]:
        near = [2 * number + 1, 2 * number + 2]
        far = random.Random(number).sample(range(self.pages), k=min(5, self.pages))
        evil = [url.partition("?")[0] for url in self.dead] if number == 5 else []
        return [*evil, *(self.url(one) for one in [*near, *far] if one < self.pages)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_polite = writer.get_extra_info("sockname")[1] == self.ports[-1]
        try:
            while line := await reader.readline():
                if is_polite:
                    self.polite.append(arrived_at(writer.get_extra_info("socket")))
                while (await reader.readline()).strip():
                    pass
                if not await self._answer(line.split()[1].decode(), writer, is_polite=is_polite):
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter, *, is_polite: bool) -> bool:
        """Whether the connection lasts."""
        if path.startswith("/evil/"):
            async for part in hostile.answer(path):
                writer.write(part)
                await writer.drain()
            return False
        if not path[1:].isdigit():
            delay = f"User-agent: *\nCrawl-delay: {DELAY_S}\n".encode()
            is_told = is_polite and path == "/robots.txt"
            writer.write(_reply(200, delay) if is_told else _reply(404, b""))
            return True
        return await self._answer_page(int(path[1:]), writer)

    async def _answer_page(self, number: int, writer: asyncio.StreamWriter) -> bool:
        self.asked[number] += 1
        if self.asked[number] < 3 and number % 29 == 7:
            return False  # it hangs up
        if self.asked[number] < 3 and number % 31 == 5:
            writer.write(_reply(500, b"not now"))
            return True
        links = "".join(f"<a href='{url}'>x</a>" for url in self.links(number))
        await asyncio.sleep(self.chance.uniform(0, 0.02))
        writer.write(_reply(200, f"<h1>{number}</h1>{links}".encode()))
        await writer.drain()
        return True


def _reply(status: int, body: bytes) -> bytes:
    head = b"HTTP/1.1 %d Whatever\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


@asynccontextmanager
async def open_site(
    pages: int, chance: random.Random, *, poison: tuple[str, ...] = ()
) -> AsyncIterator[Site]:
    site = Site(pages, chance, poison)
    servers = [await asyncio.start_server(site.serve, f"127.0.0.{1 + n}", 0) for n in range(HOSTS)]
    site.ports = [one.sockets[0].getsockname()[1] for one in servers]
    try:
        yield site
    finally:
        for one in servers:
            one.close()
