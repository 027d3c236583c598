"""Real processes that use a frontier, run as `python -m chaos.worker ROLE ORDERS`.

    work   lease, "fetch", complete, for ever; SIGTERM ends it between two leases
    hold   take one URL through URLQueue, keep it until a file appears, then complete it
    add    push a range of pages in batches, once a file appears

All they do is told to the oracle: `fetched` before the server knows, the rest after.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from chaos.oracle import Log
from skitter import URLQueue
from skitter.errors import LeaseLost
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import Server, connect
from skitter.model import Completion, Lease, Request
from waiting import PATIENCE_S

IDLE_S = 0.01


class Orders(msgspec.Struct, kw_only=True):
    """What a process is to do, as JSON on its command line."""

    server: str
    job: str
    oracle: str
    lease_s: float = 1.0
    batch: int = 20
    bulk: bool = False  # complete all leases in one call, not each in its own
    fetch_s: float = 0.0  # how long a page takes
    yields: bool = True  # an item per page
    links: int = 0  # how many a page of depth 0 leads to
    across: int = 0  # to so many other hosts, not to its own
    timed: bool = False  # tell the server's time of each lease; not for a server that dies
    poison: str = ""  # a URL with this in it kills its worker
    first: int = 0  # add: pages(first, last)
    last: int = 0
    hosts: int = 20
    gate: str = ""  # a file that has to appear


def pages(first: int, last: int, *, hosts: int = 20) -> list[str]:
    """URLs by number: the same number is the same URL in every process."""
    return [f"https://h{i % hosts}.test/p/{i}" for i in range(first, last)]


def links_of(url: str, count: int) -> list[str]:
    return [f"{url}/l/{i}" for i in range(count)]


@asynccontextmanager
async def patient(url: str) -> AsyncIterator[Server]:
    """A connection that waits for a server that is away as long as a test may take."""
    async with connect(url) as server:
        server.patience_s = PATIENCE_S
        yield server


class Worker:
    """One loop of lease and complete."""

    def __init__(self, orders: Orders, log: Log) -> None:
        self.orders, self.log = orders, log
        self.stopping = False
        self.parent = os.getppid()
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    async def run(self) -> None:
        async with patient(self.orders.server) as server:
            frontier = await open_job(server, self.orders.job)
            self.log("ready", clock=time.time())
            # Nobody is left to stop us if the test itself was killed.
            while not self.stopping and os.getppid() == self.parent:
                if not await self.turn(server, frontier):
                    await asyncio.sleep(IDLE_S)

    async def turn(self, server: Server, frontier: Frontier) -> int:
        """The server's clock is read before and after, for who wants to know about delays."""
        before = await server_ms(server) if self.orders.timed else 0
        leases = (await frontier.lease(self.orders.batch, ttl_s=self.orders.lease_s)).leases
        after = await server_ms(server) if self.orders.timed else 0
        self.log.all("leased", [{"url": x.url, "before": before, "after": after} for x in leases])
        for group in [leases] if self.orders.bulk else [[lease] for lease in leases]:
            found = [await self.fetch(lease) for lease in group]
            for lease, ended in zip(group, await frontier.complete(found), strict=True):
                self.log(ended.value, url=lease.url)
        return len(leases)

    async def fetch(self, lease: Lease) -> Completion:
        self.log("fetched", url=lease.url)
        await asyncio.sleep(self.orders.fetch_s)
        if self.orders.poison and self.orders.poison in lease.url:
            os.kill(os.getpid(), signal.SIGKILL)
        found = self.links_of(lease.url) if lease.request.depth == 0 else []
        return Completion(
            lease=lease,
            items=[{"by": os.getpid()}] if self.orders.yields else [],
            links=[Request(url=url, depth=1, parent=lease.url) for url in found],
        )

    def links_of(self, url: str) -> list[str]:
        found, hosts = links_of(url, self.orders.links), self.orders.across
        return (
            [f"https://o{i % hosts}.test/{one}" for i, one in enumerate(found)] if hosts else found
        )


async def server_ms(server: Server) -> int:
    seconds, micros = await server.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def work(orders: Orders, log: Log) -> None:
    await Worker(orders, log).run()


def hold(orders: Orders, log: Log) -> None:
    with URLQueue(orders.job, redis=orders.server, lease_s=orders.lease_s) as queue:
        task = queue.pop()
        assert task
        log("holding", url=task.url)
        wait_for(orders.gate)
        try:
            queue.complete(task, {"by": os.getpid()}, links=links_of(task.url, orders.links))
            log("done", url=task.url)
        except LeaseLost as error:
            log("late", url=error.url)


def add(orders: Orders, log: Log) -> None:
    with URLQueue(orders.job, redis=orders.server) as queue:
        queue._opened.server.patience_s = PATIENCE_S
        log("ready", clock=time.time())
        wait_for(orders.gate)
        new = 0
        for first in range(orders.first, orders.last, orders.batch):
            last = min(first + orders.batch, orders.last)
            batch = pages(first, last, hosts=orders.hosts)
            new += queue.push_many(batch)
            log.all("added", [{"url": url} for url in batch])
        log("new", count=new)


def wait_for(gate: str) -> None:
    while gate and not Path(gate).exists():
        time.sleep(IDLE_S)


def main(role: str, orders: str) -> None:
    given = msgspec.json.decode(orders, type=Orders)
    log = Log(given.oracle)
    try:
        if role == "work":
            asyncio.run(work(given, log))
        else:
            {"hold": hold, "add": add}[role](given, log)
    finally:
        log.close()


def run() -> None:
    main(*sys.argv[1:])


if __name__ == "__main__":
    run()
