"""A worker of the demo: leases a few URLs, waits a little for each, completes them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from skitter.app import open_server
from skitter.frontier.jobs import open_job
from skitter.model import Completion
from skitter.settings import Settings

FETCH_S, IDLE_S = 0.02, 0.02


async def work(directory: Path, lease_s: float) -> None:
    async with open_server(Settings(directory=directory)) as server:
        frontier = await open_job(server, "demo")
        while True:
            leases = (await frontier.lease(5, ttl_s=lease_s)).leases
            await asyncio.sleep(FETCH_S * len(leases) or IDLE_S)
            results = [Completion(lease=lease, items=[{"url": lease.url}]) for lease in leases]
            await frontier.complete(results)


if __name__ == "__main__":
    uvloop.run(work(Path(sys.argv[1]), float(sys.argv[2])))
