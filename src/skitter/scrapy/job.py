"""The job that nodes share: opened by the first, removed by the last unless it persists."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING

from skitter.engine.liveness import find_dead
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
_LOADED_AT = time.monotonic()  # before any crawler of this process started


async def open_shared(server: Server, options: NodeOptions) -> Frontier:
    """Create or join the job. The settings of the node that joined last apply to all."""
    if options.flush_on_start:
        await _flush(server, options.job)
    frontier = await create_job(
        server, options.job, options=options.job_options, layout=options.layout
    )
    for slot, values in options.slots.items():
        await set_slot(frontier, slot, **values)
    return frontier


async def join_run(frontier: Frontier, stats: Stats) -> int:
    """The number of this run. Nodes that start when nothing is left begin the same new run; later
    ones join it, so each request from `start` is sent once per run."""
    if is_done(stats):
        await start_run(frontier, stats.seen + 1)
        return stats.seen + 1
    return await read_run(frontier)


async def remove_if_last(frontier: Frontier) -> None:
    """For SCHEDULER_PERSIST = False: remove the job if nothing is left and no one else works on
    it."""
    stats = await frontier.stats()
    # A cancelled job is done too; shelved and trapped requests wait for a higher limit.
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
            "job %s is kept: %s waiting for `skitter load`", stats.job, some(stats.items, "item")
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
    """How many others work on the job, or did a moment ago, in this process or elsewhere."""
    everybody = await live_workers(frontier)
    gone = {one.name for one in await dead_nodes(frontier, everybody)}
    me = frontier.client
    now = await frontier.server_time()
    return sum(
        one.name != me and one.name not in gone and not _was_before_us(one, now)
        for one in everybody
    )


def _was_before_us(one: Heartbeat, now: float) -> bool:
    """Whether it was an earlier process on this host with our PID: a container's first process
    gets the same PID after each restart."""
    is_ours = (one.host, one.pid) == (socket.gethostname(), os.getpid())
    return is_ours and one.started_at < now - (time.monotonic() - _LOADED_AT)


async def dead_nodes(frontier: Frontier, everybody: Iterable[Heartbeat]) -> list[Heartbeat]:
    """Nodes on this machine that died without signing off."""
    nodes = [one for one in everybody if one.kind == KIND]
    return await find_dead(frontier, nodes)


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
