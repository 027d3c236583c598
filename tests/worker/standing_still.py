"""A worker whose handler never returns; run as a script with the server's URL, a job, a name
and a file."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from skitter.engine.attempt import Attempts
from skitter.engine.delivery import Delivery
from skitter.engine.loop import Worker
from skitter.engine.parts import Parts, WorkerOptions
from skitter.fetch.http.fetcher import StaticFetcher
from skitter.frontier.jobs import open_job
from skitter.frontier.transport.connection import connect
from skitter.observe.logs import ClusterLog
from skitter.settings import FetchOptions, WorkerConfig
from skitter.spider import Spider

URL = "https://a.test/"
#: The pattern of the handler tries 2^60 ways to read this, and holds the interpreter's lock.
HOSTILE = b"a" * 60 + b"!"

spider = Spider("still", [URL])


@spider.page
def reading_a_hostile_page(page):
    yield {"words": bool(re.fullmatch("(a|a)+", page.text))}


async def main(url: str, job: str, name: str, log: str) -> None:
    async with connect(url) as server:
        frontier = await open_job(server, job, client=name)
        logbook, config = ClusterLog(), WorkerConfig(fetch=FetchOptions(obey_robots=False))
        parts = Parts(spider, StaticFetcher({URL: HOSTILE}), config, log=logbook)
        delivery = Delivery(frontier, parts.memory, logbook)
        options = WorkerOptions(stuck_s=1.5, stuck_log=Path(log))
        await Worker(frontier, Attempts(parts), delivery, logbook, options).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
