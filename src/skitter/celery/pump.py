"""One message: lease and fetch for a while, hand in, tell how much it was."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from skitter.celery.config import GRACE_S, PUMP_S
from skitter.celery.registry import cached_spider, read_spec
from skitter.celery.results import ResultSink, store_failures
from skitter.celery.scheduling import confirm_slots, read_capacity, reschedule, send_pumps
from skitter.errors import JobClosed, JobMissing, SkitterError
from skitter.frontier.admin.log import log
from skitter.frontier.admin.pumps import renew_permit, return_permit
from skitter.loading import Loader, open_destination
from skitter.sinks import Destination, Pace
from skitter.spider.source_line import describe
from skitter.spider.transform import chain
from skitter.worker.loop import WorkerOptions
from skitter.worker.pulse import cancel_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skitter.celery.runtime import Runtime, WarmWorker
    from skitter.model import Stats
    from skitter.worker.loop import Worker


#: A pump that did not renew its ticket for so long is dead, and is replaced.
ALIVE_S = 12.0
RENEW_S = 3.0
LOOK_S = 0.2
#: So long no page of a process went on: that was no busy moment, somebody blocked it.
BLOCKED_S = 5.0
#: A pump works at least so long, also when others wait for its place.
TURN_S = 5.0
#: How long a pump of `scrape` waits for more work: the next caller finds it running.
LINGER_S = 2.0
#: A job that was purged, perhaps by a map_reduce that is done: nobody wants it any more.
GONE = (JobMissing, JobClosed)
#: At the end of a pump: how long items may take. What a dead process had read comes back later.
LOAD_S = 10.0
QUICK = Pace(batch=100, linger_s=0.01, idle_s=0.05)  # somebody waits for it


class PumpResult(TypedDict):
    """What a pump did."""

    job: str
    pages: int
    errors: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PumpMessage:
    """Which pump this is."""

    job: str
    ticket: str
    machine: str  # Celery's name of the worker


async def pump(runtime: Runtime, message: PumpMessage) -> PumpResult:
    """Work on a job for PUMP_S, if the ticket is good; then see to the next pump.

    A pump that fails keeps its ticket until it runs out: whatever it is, it will not be tried
    again at once.
    """
    done = PumpResult(job=message.job, pages=0, errors=0, seconds=0.0)
    spec = await read_spec(await runtime.server(), message.job)
    if spec is None:  # over, or a message from long ago
        await _give_back(runtime, message)
        return done
    try:
        async with runtime.warm(spec) as warm:
            done = await _run_counted(runtime, warm, message)
    except GONE:
        pass  # it was purged
    except Exception as error:
        await _tell(runtime, message, error)
        raise
    if not runtime.stopping:
        await reschedule(runtime, message.job)
    return done


async def _run_counted(runtime: Runtime, warm: WarmWorker, message: PumpMessage) -> PumpResult:
    began, before = time.monotonic(), (warm.tally.pages, warm.tally.errors)
    if await renew_permit(warm.frontier, message.ticket, ttl_s=ALIVE_S):
        await _work(runtime, warm, message)
        await return_permit(warm.frontier, message.ticket)
    return PumpResult(
        job=message.job,
        pages=warm.tally.pages - before[0],
        errors=warm.tally.errors - before[1],
        seconds=round(time.monotonic() - began, 3),
    )


async def _give_back(runtime: Runtime, message: PumpMessage) -> None:
    """Whoever takes spec next need not wait until the ticket has run out."""
    with suppress(*GONE):
        frontier = await runtime.frontier(message.job)
        await return_permit(frontier, message.ticket)


async def _tell(runtime: Runtime, message: PumpMessage, error: Exception) -> None:
    """Whoever runs `skitter logs` hears of it; the trace is in Celery's log."""
    text = str(error) if isinstance(error, SkitterError) else describe(error)
    with suppress(SkitterError):
        frontier = await runtime.frontier(message.job)
        await log(frontier, "error", f"celery-{os.getpid()}", text)


async def _work(runtime: Runtime, warm: WarmWorker, message: PumpMessage) -> None:
    lingers = warm.spec.kind == "scrape"
    worker = warm.worker(
        WorkerOptions.of(
            warm.spec.config,
            grace_s=GRACE_S,
            max_memory_mb=None,  # Celery has a limit of its own
            for_s=PUMP_S,
            keep_alive=lingers,
            stuck_s=runtime.settings.stuck_s,
            kind="celery",
            watch_signals=False,  # Celery minds them
        )
    )
    async with loading_items(runtime, warm):
        beside = [asyncio.create_task(_control(runtime, warm, worker, message))]
        if lingers:
            beside.append(asyncio.create_task(_stop_when_idle(warm, worker)))
        try:
            await worker.run()
        finally:
            await cancel_all(beside)


async def _control(
    runtime: Runtime, warm: WarmWorker, worker: Worker, message: PumpMessage
) -> None:
    """Stop when Celery shuts down, when there are pumps too many, or when others wait."""
    looked_at = began = time.monotonic()
    while not runtime.stopping:
        await _report_blocking(warm)
        if time.monotonic() - looked_at > RENEW_S:
            looked_at = time.monotonic()
            if not await _keep_going(runtime, warm, message):
                break
            if looked_at - began > TURN_S and await _should_yield(warm):
                break
    worker.stop()


async def _report_blocking(warm: WarmWorker) -> None:
    """Nothing of ours runs while a handler blocks; afterwards there is somebody to blame."""
    before = time.monotonic()
    await asyncio.sleep(LOOK_S)
    stood_s = time.monotonic() - before
    if stood_s > BLOCKED_S:
        text = f"a handler blocked all other pages of its process for {stood_s:.0f} s"
        warm.first.logbook("warning", f"{text}: let it await, or use asyncio.to_thread")


async def _keep_going(runtime: Runtime, warm: WarmWorker, message: PumpMessage) -> bool:
    """Keep the ticket, and see to the other pumps: if all slots of all workers are taken by
    pumps, nobody else does. Not if the spec is gone: somebody stopped the crawl."""
    frontier, server = warm.frontier, warm.frontier.server
    try:
        await confirm_slots(server, message.machine)
        spec = await read_spec(server, message.job)
        if spec is None or spec.mark != warm.spec.mark:
            return False
        stats = await frontier.stats()
        if not stats.crawled:
            await send_pumps(runtime, frontier, warm.spec, stats)
        return await renew_permit(frontier, message.ticket, ttl_s=ALIVE_S)
    except SkitterError as error:
        return error.retryable  # the server is away: the worker waits for it


async def _should_yield(warm: WarmWorker) -> bool:
    """There are more jobs than slots: the next message of this one goes behind theirs."""
    try:
        return (await read_capacity(warm.frontier.server, warm.spec.job)).is_oversubscribed
    except SkitterError:
        return False


async def _stop_when_idle(warm: WarmWorker, worker: Worker) -> None:
    busy_at = time.monotonic()
    while time.monotonic() - busy_at < LINGER_S:
        await asyncio.sleep(LOOK_S)
        try:
            if not (await warm.frontier.stats()).crawled:
                busy_at = time.monotonic()
        except SkitterError:
            busy_at = time.monotonic()
    worker.stop()


@asynccontextmanager
async def loading_items(runtime: Runtime, warm: WarmWorker) -> AsyncIterator[None]:
    """While this lasts, and then until nothing is left. Raises what went wrong first."""
    try:
        async with _loading_items(runtime, warm):
            yield
    except BaseExceptionGroup as errors:  # of the task group
        gone = [one for one in errors.exceptions if isinstance(one, GONE)]
        raise (gone or errors.exceptions)[0] from errors


@asynccontextmanager
async def _loading_items(runtime: Runtime, warm: WarmWorker) -> AsyncIterator[None]:
    for_callers = warm.spec.kind == "scrape"
    if not for_callers and not warm.spec.out:
        yield
        return
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_load(runtime, warm, stop))
        if for_callers:
            group.create_task(store_failures(runtime, warm.frontier, stop))
        try:
            yield
            await _until_loaded(warm)
        finally:
            stop.set()


async def _load(runtime: Runtime, warm: WarmWorker, stop: asyncio.Event) -> None:
    spec = warm.spec
    steps = cached_spider(spec.target).transforms if spec.out else []
    change = chain(steps) if steps else None
    loader = Loader(warm.frontier, warm.first.name, warm.first.logbook, stop, change, QUICK)
    if spec.kind == "scrape":
        await loader.run(lambda: nullcontext(ResultSink(runtime, spec)))
        return
    to = Destination(warm.permissions.out, spec.job, runtime.where.directory)
    await loader.run(partial(open_destination, warm.frontier, to))
    if (await warm.frontier.stats()).finished:
        await to.finish()


async def _until_loaded(warm: WarmWorker) -> None:
    deadline = time.monotonic() + LOAD_S
    while time.monotonic() < deadline:
        if not _is_waiting(warm, await warm.frontier.stats()):
            return
        await asyncio.sleep(0.02)


def _is_waiting(warm: WarmWorker, stats: Stats) -> bool:
    return bool(stats.items or (warm.spec.kind == "scrape" and stats.dead))
