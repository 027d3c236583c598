"""Crawls by the workers of another task queue: a driver of Skitter's engine for Dramatiq.

    dramatiq driver --processes 2 --threads 1    # as many as you like, on as many machines
    python driver.py books.py --pumps 2          # begins the crawl, and watches it to its end
    skitter load books --to books.db             # stores its items

A message is no URL but a permit to work on a job for a while (a pump). URLs stay in the frontier,
so a message that is lost, late or there twice neither loses nor doubles a page.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from skitter import load_spider
from skitter.app import open_crawl, open_server
from skitter.engine.assembly import open_worker
from skitter.engine.leases import find_dead, reclaim
from skitter.engine.parts import WorkerOptions
from skitter.engine.pulse import cancel_all
from skitter.frontier.jobs import open_job
from skitter.frontier.records.drivers import issue_permits, renew_permit, return_permit
from skitter.frontier.workers import heartbeats
from skitter.settings import find_server, resolve
from skitter.spider.seeding import offer_seeds

PUMP_S = 20.0  # how long one message works
PERMIT_S = 12.0  # a pump that has not renewed its permit for this long is dead, and replaced
RENEW_S = 3.0
SENT_S = 30.0  # how long a message may wait in the queue before it counts as lost
LEASE_S = 60.0

dramatiq.set_broker(RedisBroker(url=os.environ.get("DRAMATIQ_URL", "redis://localhost:6379/1")))


@dramatiq.actor(max_retries=0, time_limit=600_000)
def pump(target: str, permit: str, pumps: int) -> None:
    """Work on the spider's job, then send what is missing: a crawl goes on without its watcher."""
    asyncio.run(_pump(target, permit, pumps))


async def _pump(target: str, permit: str, pumps: int) -> None:
    spider = load_spider(target)
    config = resolve(job=spider.name, spider=spider.tables).for_worker(job=spider.name)
    async with open_server(find_server()) as server:
        frontier = await open_job(server, spider.name)
        if not await renew_permit(frontier, permit, ttl_s=PERMIT_S):
            return  # the message was late, and another has taken its place
        options = WorkerOptions.of(
            config, for_s=PUMP_S, lease_s=LEASE_S, watch_signals=False, kind="dramatiq"
        )
        async with open_worker(frontier, spider, config, options=options) as worker:
            keeping = asyncio.create_task(_keep(frontier, permit, worker))
            try:
                await worker.run()
            finally:
                await cancel_all([keeping])
        await return_permit(frontier, permit)
        if not (await frontier.stats()).crawled:
            await send_pumps(frontier, target, pumps)


async def _keep(frontier, permit, worker) -> None:
    """Stop when the permit is void: there are too many pumps, or the crawl was stopped."""
    is_good = True
    while is_good:
        await asyncio.sleep(RENEW_S)
        is_good = await renew_permit(frontier, permit, ttl_s=PERMIT_S)
    worker.stop()


async def send_pumps(frontier, target: str, pumps: int) -> None:
    """Permits on the server keep all who call this from sending more than wanted in total."""
    await reclaim(frontier, await find_dead(frontier, await heartbeats(frontier)))
    for permit in await issue_permits(frontier, pumps, ttl_s=SENT_S):
        pump.send(target, permit, pumps)


async def crawl(target: str, pumps: int) -> int:
    """Begin or resume a crawl, and watch it until it is over. Returns how many pages are dead."""
    spider = load_spider(target)
    config = resolve(job=spider.name, spider=spider.tables)
    async with open_server(find_server()) as server:
        frontier, _ = await open_crawl(server, spider.name, spider, config)
        await offer_seeds(frontier, spider)
        told_at = 0.0
        while not (stats := await frontier.stats()).crawled:
            await send_pumps(frontier, target, pumps)
            if time.monotonic() - told_at > 5.0:
                told_at = time.monotonic()
                sys.stderr.write(f"{stats.done:,} pages done, {stats.remaining:,} left\n")
            await asyncio.sleep(0.5)
        sys.stderr.write(f"{stats.done:,} pages done, {stats.dead:,} dead\n")
        return stats.dead


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("spider", help="its file; it must be the same on all workers")
    parser.add_argument("--pumps", type=int, default=2, help="how many messages at a time")
    options = parser.parse_args()
    sys.exit(1 if asyncio.run(crawl(options.spider, options.pumps)) else 0)
