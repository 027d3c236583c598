"""Jobs on a server: create, open, list, purge."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import msgspec

from skitter.errors import JobClosed, JobMismatch, JobMissing
from skitter.frontier.control import configure, read_options
from skitter.frontier.frontier import Frontier
from skitter.frontier.keys import JOBS, ShardKeys
from skitter.frontier.scan import STEP, scan_keys
from skitter.frontier.shard import Shard, client_name
from skitter.settings import JobOptions, Layout, check_job_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.frontier.connection import Server


PURGE = "purge"  # a state of its own: every script refuses to work on such a job


async def list_jobs(server: Server) -> list[str]:
    """The names of all jobs on the server, sorted."""
    names: list[bytes] = await server.command("HKEYS", JOBS)
    return sorted(name.decode() for name in names)


async def create_job(
    server: Server,
    job: str,
    *,
    options: JobOptions | None = None,
    layout: Layout | None = None,
    clock: Callable[[], int] | None = None,
) -> Frontier:
    """Open a job, and create it if need be. Options that are given are set, also on an old job."""
    check_job_name(job)
    await server.command("HSETNX", JOBS, job, msgspec.json.encode(layout or Layout()))
    frontier = await _frontier(server, job, clock)
    if layout is not None:
        _check_layout(job, stored=frontier.layout, asked=layout)
    stored = await read_options(frontier)
    if stored is None:  # new, or its creator died here
        await configure(frontier, options or JobOptions(), create=True)
        return frontier
    _check_state(job, stored[0])
    frontier.options = stored[1]
    if options is not None:
        await configure(frontier, options)
    return frontier


async def open_job(
    server: Server,
    job: str,
    *,
    purging: bool = False,
    clock: Callable[[], int] | None = None,
) -> Frontier:
    """Open a job that exists. Purging: also one whose purge was interrupted."""
    frontier = await _frontier(server, check_job_name(job), clock)
    stored = await read_options(frontier)
    if stored is None:
        raise JobMissing(job, await list_jobs(server))
    if not purging:
        _check_state(job, stored[0])
    frontier.options = stored[1]
    return frontier


async def purge_job(frontier: Frontier) -> int:
    """Remove a job and all it knows, in small steps. Returns how many keys that were.

    The state goes first, so that late workers are refused; the name last, so that a purge that
    was interrupted can be run again.
    """
    removed = 0
    for shard in frontier.shards:
        await shard.call("control", ["state", PURGE], create=0)
        control = shard.keys.key("control")
        batch: list[str] = []
        async for key in scan_keys(shard):
            if key != control:
                batch.append(key)
            if len(batch) >= STEP:
                removed += await shard.server.command("UNLINK", *batch)
                batch = []
        removed += await shard.server.command("UNLINK", *batch, control)
    await frontier.shards[0].server.command("HDEL", JOBS, frontier.job)
    return removed


async def _frontier(server: Server, job: str, clock: Callable[[], int] | None) -> Frontier:
    raw = await server.command("HGET", JOBS, job)
    if raw is None:
        raise JobMissing(job, await list_jobs(server))
    layout = msgspec.json.decode(raw, type=Layout)
    name = client_name()
    shards = [Shard(server, ShardKeys(job, number), name, clock) for number in range(layout.shards)]
    return Frontier(job, layout, JobOptions(), shards)


def _check_state(job: str, state: str) -> None:
    if state == PURGE:
        raise JobClosed(job, "half purged", hint=f"run `skitter purge {job}` to finish that.")


def _check_layout(job: str, *, stored: Layout, asked: Layout) -> None:
    for one in fields(Layout):
        old, new = getattr(stored, one.name), getattr(asked, one.name)
        if old != new:
            raise JobMismatch(job, one.name, stored=old, asked=new)
