"""What contenders share: a private server, pages to crawl, URLs to queue."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.site import open_site
from skitter.embedded import hold
from skitter.frontier.frontier import ADD_BATCH
from skitter.frontier.transport.connection import Server, connect, inspect
from skitter.model import Completion, Request
from skitter.settings import JobOptions, Politeness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from benchmarks.site import Site
    from skitter.frontier.frontier import Frontier

Progress = Callable[[str], None]

LEASE = 500
TASKS = 2  # so that the client encodes while the server works, as in a worker
#: No delays: this measures speed, not politeness.
RUDE = JobOptions(politeness=Politeness(delay_s=0, max_in_flight=100_000))


@dataclass(frozen=True, slots=True)
class Ground:
    """A private server, its socket for peers, a directory for files, and a site if needed."""

    server: Server
    socket: Path
    directory: Path
    progress: Progress
    site: Site | None = None

    def publish(self, pages: int) -> str:
        """The URL of the first of this many pages."""
        assert self.site is not None
        return self.site.origin + self.site.publish(pages)

    async def clear(self) -> None:
        await self.server.command("FLUSHALL", "SYNC")

    async def script_time(self) -> int:
        """Microseconds spent in EVALSHA since the server started."""
        stats = (await self.server.command("INFO", "commandstats")).get("cmdstat_evalsha", {})
        return int(stats.get("usec", 0))

    async def server_cpu_s(self) -> float:
        """Seconds of processor time that the server has taken."""
        info = await self.server.command("INFO", "cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    async def data_bytes(self) -> int:
        """The size of the data, without client buffers."""
        await self.quiet()
        info = await self.server.command("INFO", "memory")
        # Not mem_clients_normal from INFO: it is updated by a timer, with a delay.
        clients = await self.server.command("CLIENT LIST")
        buffers = sum(int(client["tot-mem"]) for client in clients)
        return int(info["used_memory"]) - int(info["mem_aof_buffer"]) - buffers

    async def quiet(self) -> None:
        """Wait until the server has no background work: a rewrite takes a core and memory."""
        while True:
            info = await self.server.command("INFO", "persistence")
            if not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"]):
                return
            await asyncio.sleep(0.05)

    async def version(self) -> str:
        [facts] = await inspect(self.server)
        nginx = f", {self.site.server}" if self.site else ""
        return f"{facts.name} {facts.version}{nginx}"


@asynccontextmanager
async def prepare_ground(progress: Progress, *, with_site: bool = False) -> AsyncIterator[Ground]:
    """Start the server, and nginx, in their own directory; all is removed at the end."""
    async with AsyncExitStack() as stack:
        # Short, because the path of a unix socket must be.
        made = tempfile.TemporaryDirectory(prefix="skitter-bench-", ignore_cleanup_errors=True)
        directory = Path(stack.enter_context(made))
        embedded = stack.enter_context(hold(directory / "server"))
        server = await stack.enter_async_context(connect(embedded.url))
        site = None
        if with_site:
            site = await stack.enter_async_context(open_site(directory / "site"))
        yield Ground(server, embedded.socket, directory, progress, site)


def make_urls(how_many: int, *, hosts: int) -> list[str]:
    """URLs of about 60 characters, alternating between hosts, like links from many sites."""
    return [
        f"https://www.shop-{n % hosts:07}.example/catalogue/item-{n:09}.html?v=1"
        for n in range(how_many)
    ]


async def fill(frontier: Frontier, urls: Iterable[str], progress: Progress | None = None) -> int:
    """Add any number of URLs in batches. Returns how many."""
    added = 0
    batch: list[Request] = []
    for url in urls:
        batch.append(Request(url=url))
        if len(batch) == ADD_BATCH:
            added += len(await frontier.add(batch))
            batch = []
            if progress and added % 100_000 == 0:
                progress(f"{frontier.job}: {added:,} URLs added")
    return added + (len(await frontier.add(batch)) if batch else 0)


async def finish_all(frontier: Frontier) -> None:
    while leases := (await frontier.lease(LEASE)).leases:
        await frontier.complete([Completion(lease=lease) for lease in leases])


async def add_and_finish(frontier: Frontier, urls: list[str]) -> float:
    """Like a worker: links by the hundreds, leases by the hundred. Returns the seconds."""
    started = time.perf_counter()
    async with asyncio.TaskGroup() as adders:
        for first in range(TASKS):
            adders.create_task(fill(frontier, urls[first::TASKS]))
    async with asyncio.TaskGroup() as workers:
        for _ in range(TASKS):
            workers.create_task(finish_all(frontier))
    return time.perf_counter() - started


async def check_done(frontier: Frontier, urls: int) -> None:
    if (done := (await frontier.stats()).done) != urls:
        raise AssertionError(f"{done:,} of {urls:,} URLs were completed")
