"""The job that nodes share: opened by the first, removed by the last if it is not to persist."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING

from skitter.engine.liveness import gone
from skitter.errors import JobMissing
from skitter.frontier.admin.adopted import read_run, start_run
from skitter.frontier.admin.control import set_slot
from skitter.frontier.admin.jobs import create_job, open_job, purge_job
from skitter.frontier.admin.workers import live_workers
from skitter.report import some
from skitter.scrapy.prefetch import is_done

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.frontier.admin.workers import Heartbeat
    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats
    from skitter.scrapy.options import NodeOptions

logger = logging.getLogger("skitter.scrapy")

KIND = "scrapy"
_LOADED_AT = time.monotonic()  # before any crawler of this process began


async def open_shared(server: Server, options: NodeOptions) -> Frontier:
    """Create the job or join it. The settings of the node that came last hold for all."""
    if options.flush_on_start:
        await _flush(server, options.job)
    frontier = await create_job(
        server, options.job, options=options.job_options, layout=options.layout
    )
    for slot, values in options.slots.items():
        await set_slot(frontier, slot, **values)
    return frontier


async def join_run(frontier: Frontier, stats: Stats) -> int:
    """The number of this run. Nodes that start while nothing is left begin the same new one; those
    that come later join it: what `start` yields is asked for once per run."""
    if is_done(stats):
        await start_run(frontier, stats.seen + 1)
        return stats.seen + 1
    return await read_run(frontier)


async def remove_if_last(frontier: Frontier) -> None:
    """SCHEDULER_PERSIST = False: never while anything is left, or anybody else is at work."""
    stats = await frontier.stats()
    # A job that was cancelled is done, too; what is shelved or held waits for a higher limit.
    if stats.remaining or stats.shelved or stats.trapped or not is_done(stats):
        return
    if others := await others_at_work(frontier):
        logger.info(
            "job %s is kept: %s at work on it",
            stats.job,
            some(others, "other process", "other processes"),
        )
        return
    if stats.items:
        logger.warning(
            "job %s is kept: %s for `skitter load`", stats.job, some(stats.items, "item")
        )
        return
    if stats.dead or stats.rejected:
        logger.warning(
            "job %s is removed with %s and %s: SCHEDULER_PERSIST = True keeps them",
            stats.job,
            some(stats.dead, "dead letter"),
            some(stats.rejected, "rejected item"),
        )
    await purge_job(frontier)


async def others_at_work(frontier: Frontier) -> int:
    """How many others are, or were a moment ago; another crawler of this process counts."""
    everybody = await live_workers(frontier)
    gone = {one.name for one in await dead_nodes(frontier, everybody)}
    me = frontier.client
    now = await frontier.server_time()
    return sum(
        one.name != me and one.name not in gone and not _was_before_us(one, now)
        for one in everybody
    )


def _was_before_us(one: Heartbeat, now: float) -> bool:
    """A process of the same number on this machine that is not ours: a container's first process
    has the same number in each of its lives."""
    is_ours = (one.host, one.pid) == (socket.gethostname(), os.getpid())
    return is_ours and one.started_at < now - (time.monotonic() - _LOADED_AT)


async def dead_nodes(frontier: Frontier, everybody: Iterable[Heartbeat]) -> list[Heartbeat]:
    """Nodes of this machine that ended without a word."""
    nodes = [one for one in everybody if one.kind == KIND]
    return await gone(frontier, nodes)


async def _flush(server: Server, job: str) -> None:
    try:
        old = await open_job(server, job, as_found=True)
    except JobMissing:
        return
    if others := await others_at_work(old):
        logger.warning(
            "SCHEDULER_FLUSH_ON_START: %s was not flushed, %s at work on it",
            job,
            some(others, "other process", "other processes"),
        )
    else:
        await purge_job(old)
