"""Beside the worker of a pump: items go where they belong, into a database or to callers."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from skitter.celery.deliver import ResultSink, deliver_dead
from skitter.celery.envelope import known_spider
from skitter.errors import JobClosed, JobMissing
from skitter.frontier.admin.items import Aside, ItemStream, set_aside
from skitter.frontier.admin.sink import check_sink, claim_sink
from skitter.frontier.wire import cut
from skitter.sinks import Hooks, Pace, Patience, Stopped, load, open_sink
from skitter.sinks.dsn import place_of
from skitter.spider.transform import chain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.celery.office import Desk, Office
    from skitter.model import Result, Stats
    from skitter.sinks import LoadState, Sink

#: A job that was purged, perhaps by a map_reduce that is done: nobody wants it any more.
GONE = (JobMissing, JobClosed)
#: At the end of a pump: how long items may take. What a dead process had read comes back later.
UNLOAD_S = 10.0
QUICK = Pace(batch=100, linger_s=0.01, idle_s=0.05)  # somebody waits for it


@asynccontextmanager
async def unloading(office: Office, desk: Desk) -> AsyncIterator[None]:
    """While this lasts, and then until nothing is left. Raises what went wrong first."""
    try:
        async with _unloading(office, desk):
            yield
    except BaseExceptionGroup as errors:  # of the task group
        gone = [one for one in errors.exceptions if isinstance(one, GONE)]
        raise (gone or errors.exceptions)[0] from errors


@asynccontextmanager
async def _unloading(office: Office, desk: Desk) -> AsyncIterator[None]:
    for_callers = desk.charge.kind == "scrape"
    if not for_callers and not desk.charge.out:
        yield
        return
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_load(office, desk, stop))
        if for_callers:
            group.create_task(deliver_dead(office, desk.frontier, stop))
        try:
            yield
            await _until_unloaded(desk)
        finally:
            stop.set()


async def _load(office: Office, desk: Desk, stop: asyncio.Event) -> None:
    """A place that is away is waited for, now and later; the log says so."""
    hooks = _hooks(desk)
    insist = Patience(stop, on_state=hooks.on_state)
    async with AsyncExitStack() as stack:

        async def open_it() -> Sink:
            charge = desk.charge
            if charge.kind == "scrape":
                return ResultSink(office, charge)
            return await stack.enter_async_context(_open_place(desk))

        try:
            sink = await insist(open_it)
        except Stopped:
            return
        source = ItemStream(desk.frontier, desk.first.name)
        await load(source, sink, stop=stop, hooks=hooks, pace=QUICK)


@asynccontextmanager
async def _open_place(desk: Desk) -> AsyncIterator[Sink]:
    """The sink, which from now on has all items of the job. Or ItemsElsewhere."""
    place = place_of(desk.rights.out)
    await check_sink(desk.frontier, place)  # before a file is made for nothing
    async with open_sink(desk.rights.out, job=desk.charge.job) as sink:
        await claim_sink(desk.frontier, place)
        yield sink


def _hooks(desk: Desk) -> Hooks:
    logbook = desk.first.logbook

    def tell(state: LoadState) -> None:
        logbook("info" if state.ok else "warning", state.message)

    async def keep(result: Result, error: Exception) -> None:
        aside = Aside(url=result.url, field="", reason=cut(str(error)), item=result.item)
        await set_aside(desk.frontier, aside)
        logbook("warning", f"an item of {result.url} was rejected: {error}")

    steps = known_spider(desk.charge.target).transforms if desk.charge.out else []
    return Hooks(transform=chain(steps) if steps else None, on_rejected=keep, on_state=tell)


async def _until_unloaded(desk: Desk) -> None:
    deadline = time.monotonic() + UNLOAD_S
    while time.monotonic() < deadline:
        if not _is_waiting(desk, await desk.frontier.stats()):
            return
        await asyncio.sleep(0.02)


def _is_waiting(desk: Desk, stats: Stats) -> bool:
    return bool(stats.items or (desk.charge.kind == "scrape" and stats.dead))
