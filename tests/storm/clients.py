"""Clients of the HTTP API that push pages while everything around them fails."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from skitter.client import AsyncClient
from skitter.engine.pulse import cancel_all
from skitter.errors import SkitterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from storm.crawl import Crawl
    from storm.site import Site

MAX_URLS = 20  # in one push


@dataclass
class Clients:
    """What was pushed, and what the API has said yes to."""

    site: Site
    chance: random.Random
    pushed: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._firsts = count(self.site.pages, MAX_URLS)

    async def push(self, client: AsyncClient, *, pause_s: float) -> None:
        """Islands, one after the other. Who hears nothing does not ask again."""
        for first in self._firsts:
            numbers = set(range(first, first + self.chance.randint(1, MAX_URLS)))
            self.pushed |= numbers
            with suppress(SkitterError):
                await client.push("storm", [self.site.url(one) for one in sorted(numbers)])
                self.acknowledged |= numbers
            await asyncio.sleep(self.chance.uniform(0, pause_s))


@asynccontextmanager
async def open_clients(
    crawl: Crawl, site: Site, chance: random.Random, *, at_once: int = 1, pause_s: float = 1.0
) -> AsyncIterator[Clients]:
    clients = Clients(site, chance)
    if not any(one.name == "serve" for one in crawl.helpers):
        yield clients
        return
    token = await asyncio.to_thread(crawl.ask, "token", "new", "--scope", "push")
    async with AsyncClient(f"http://127.0.0.1:{crawl.api_port}", token=token.strip()) as client:
        pushing = [
            asyncio.create_task(clients.push(client, pause_s=pause_s)) for _ in range(at_once)
        ]
        try:
            yield clients
        finally:
            await cancel_all(pushing)
