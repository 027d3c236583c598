"""One message: lease and fetch for a while, load the items, report the counts. Where pumps load
items, and what is refused when a job is submitted.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from skitter.celery.broker import send_told, tell
from skitter.celery.config import GRACE_S, PUMP_S
from skitter.celery.jobs import cached_spider, has_outcomes, read_spec
from skitter.celery.results import ResultSink, store_failures
from skitter.celery.revoke import TaskWorker
from skitter.celery.scheduling import (
    confirm_slots,
    count_waiting,
    read_capacity,
    reschedule,
    send_pumps,
)
from skitter.crawl.job_loader import Loader
from skitter.crawl.outputs import name_outputs, open_destination
from skitter.engine.loop import Worker
from skitter.engine.parts import WorkerOptions
from skitter.engine.pulse import cancel_all
from skitter.errors import JobClosed, JobMissing, SkitterError
from skitter.frontier.records.drivers import lane_of, renew_permit, return_permit
from skitter.frontier.records.outputs import claim_sink, find_sink
from skitter.frontier.workers import SILENCE_S, log
from skitter.sinks import Destination, LoadPace, SinkAway, SinkBusy, Stopped
from skitter.spider.source import describe
from skitter.spider.transform import chain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from skitter.celery.jobs import JobSpec
    from skitter.celery.runtime import Only, Runtime, WarmWorker
    from skitter.crawl.outputs import OpenSink
    from skitter.frontier.frontier import Frontier
    from skitter.sinks.base import Sink


#: How often to look whether another pump has closed the file.
BUSY_S = 0.5


def output_of(runtime: Runtime, spec: JobSpec) -> Destination:
    """Raises NotAllowed for an output that this worker may not open."""
    return Destination(runtime.check_job(spec), spec.job, runtime.where.directory)


async def claim_output(runtime: Runtime, spec: JobSpec) -> None:
    """Raises UsageError for an output that takes no items of this job, as `run` does: before a job
    is created, and before a pump could meet it.

    One that is away, or that a pump is writing, is accepted: pumps wait for it.
    """
    if not spec.out:
        return
    to = output_of(runtime, spec)
    try:
        frontier = await runtime.frontier(spec.job)
    except JobMissing:
        opening = to.open()
    else:
        if await find_sink(frontier) == to.place:
            said: list[str] = []
            await name_outputs(frontier, [to], said.append)
            for line in said:
                await log(frontier, "warning", f"celery-{os.getpid()}", line)
            return
        opening = open_destination(frontier, to)
    with suppress(SinkAway, SinkBusy):
        async with opening:
            pass


@asynccontextmanager
async def open_output(
    frontier: Frontier, to: Destination, *, known: asyncio.Event, stop: asyncio.Event
) -> AsyncIterator[Sink]:
    """The sink. `known` is set when it is open, away or busy: what is raised without it is a
    mistake.

    Only one process at a time may write some files: the pump that has one open loads what the
    others fetch, and they wait for their turn.
    """
    async with AsyncExitStack() as stack:
        while True:
            try:
                sink = await stack.enter_async_context(open_destination(frontier, to))
                break
            except SinkBusy:
                known.set()
                await _pause(stop)
            except SinkAway:
                known.set()
                raise
        known.set()
        keeping = asyncio.create_task(_keep(frontier, to.place))
        stack.push_async_callback(cancel_all, [keeping])
        yield sink


async def _keep(frontier: Frontier, place: str) -> None:
    """Claim it again and again: a place that has received nothing for a while may be replaced, and
    what this pump loads would be in the wrong one."""
    while True:
        await asyncio.sleep(SILENCE_S / 3)
        with suppress(SkitterError):
            await claim_sink(frontier, place)


async def _pause(stop: asyncio.Event) -> None:
    """Raises Stopped."""
    try:
        await asyncio.wait_for(stop.wait(), BUSY_S)
    except TimeoutError:
        return
    raise Stopped


#: A pump that has not renewed its permit for this long is dead, and replaced.
PERMIT_S = 12.0
RENEW_S = 3.0
TICK_S = 0.2
#: If no page of a process makes progress for this long, something blocked it.
BLOCKED_S = 5.0
#: A pump works at least this long, even when others wait for its slot.
TURN_S = 5.0
#: How long a pump of `scrape` waits for more work: the next caller finds it running.
LINGER_S = 2.0
#: How long loading may take at the end of a pump. The rest is left to the next one.
LOAD_S = 10.0
QUICK = LoadPace(batch=100, linger_s=0.01, idle_s=0.05)  # a caller is waiting
#: The job was purged, perhaps by a map_reduce that is done.
PURGED = (JobMissing, JobClosed)


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
    permit: str
    machine: str  # Celery's name for the worker

    def only_of(self, spec: JobSpec) -> Only:
        """The kind of pages it fetches; None: all of the job's."""
        if not spec.plain:
            return None
        return "browser" if lane_of(self.permit) == "browser" else "http"


async def pump(runtime: Runtime, message: PumpMessage) -> PumpResult:
    """Work on a job for PUMP_S if the permit is valid, then schedule the next pump.

    A pump that fails keeps its permit until it expires, so it is not retried immediately.
    """
    result = PumpResult(job=message.job, pages=0, errors=0, seconds=0.0)
    spec = await read_spec(await runtime.server(), message.job)
    if spec is None:  # over, or an old message
        with suppress(*PURGED):
            await return_permit(await runtime.frontier(message.job), message.permit)
        return result
    try:
        async with runtime.warm_worker(spec, only=message.only_of(spec)) as warm:
            result = await _run_counted(runtime, warm, message)
    except PURGED:
        pass
    except Exception as error:
        await _log_error(runtime, message, error)
        raise
    if not runtime.stopping:
        await reschedule(runtime, message.job)
    return result


async def _run_counted(runtime: Runtime, warm: WarmWorker, message: PumpMessage) -> PumpResult:
    started_at, pages, errors = time.monotonic(), warm.tally.pages, warm.tally.errors
    if await renew_permit(warm.frontier, message.permit, ttl_s=PERMIT_S):
        await _run(runtime, warm, message)
        await asyncio.to_thread(send_told, runtime)
        await return_permit(warm.frontier, message.permit)
    return PumpResult(
        job=message.job,
        pages=warm.tally.pages - pages,
        errors=warm.tally.errors - errors,
        seconds=round(time.monotonic() - started_at, 3),
    )


async def _log_error(runtime: Runtime, message: PumpMessage, error: Exception) -> None:
    """For `skitter logs`."""
    text = str(error) if isinstance(error, SkitterError) else describe(error)
    with suppress(SkitterError):
        frontier = await runtime.frontier(message.job)
        await log(frontier, "error", f"celery-{os.getpid()}", text)


async def _run(runtime: Runtime, warm: WarmWorker, message: PumpMessage) -> None:
    lingers = warm.spec.kind == "scrape"
    worker = warm.worker(
        TaskWorker if lingers else Worker,
        WorkerOptions.of(
            warm.spec.config,
            grace_s=GRACE_S,
            max_memory_mb=None,  # Celery has its own limit
            for_s=PUMP_S,
            keep_alive=lingers,
            stuck_s=runtime.settings.stuck_s,
            kind="celery",
            watch_signals=False,  # Celery handles them
        ),
    )
    if isinstance(worker, TaskWorker):
        worker.tell = partial(tell, runtime)
    async with loading(runtime, warm, worker):
        tasks = [asyncio.create_task(_control(runtime, warm, worker, message))]
        if lingers:
            tasks.append(asyncio.create_task(_stop_when_idle(warm, worker)))
        if warm.only:
            tasks.append(asyncio.create_task(_stop_without_work(worker)))
        try:
            await worker.run()
        finally:
            await cancel_all(tasks)


# --- when to stop ---------------------------------------------------------------------------------


async def _control(
    runtime: Runtime, warm: WarmWorker, worker: Worker, message: PumpMessage
) -> None:
    """Stop when Celery shuts down, when there are too many pumps, or when other jobs wait."""
    renewed_at = started_at = time.monotonic()
    others_wait = False
    while not runtime.stopping:
        await _report_blocking(warm)
        await asyncio.to_thread(send_told, runtime)
        if time.monotonic() - renewed_at > RENEW_S:
            renewed_at = time.monotonic()
            if not await _renew(runtime, warm, message):
                break
            before, others_wait = others_wait, await _do_others_wait(runtime)
            is_crowded = (before and others_wait) or await _is_crowded(runtime, warm)
            if renewed_at - started_at > TURN_S and is_crowded:
                break
    worker.stop()


async def _report_blocking(warm: WarmWorker) -> None:
    """A blocking handler blocks this task too, so report it afterwards."""
    before = time.monotonic()
    await asyncio.sleep(TICK_S)
    blocked_s = time.monotonic() - before
    if blocked_s > BLOCKED_S:
        text = f"a handler blocked all other pages of its process for {blocked_s:.0f} s"
        warm.first.logbook("warning", f"{text}: make it await, or use asyncio.to_thread")


async def _renew(runtime: Runtime, warm: WarmWorker, message: PumpMessage) -> bool:
    """Keep the permit, and send other pumps: if pumps take all slots of all workers, no watch runs.
    False: the crawl was stopped, or there are too many pumps."""
    frontier = warm.frontier
    try:
        await confirm_slots(frontier.server, message.machine)
        spec = await read_spec(frontier.server, message.job)
        if spec is None or spec.run_id != warm.spec.run_id:
            return False
        stats = await frontier.stats()
        if not stats.crawled:
            await send_pumps(runtime, frontier, warm.spec, stats)
        return await renew_permit(frontier, message.permit, ttl_s=PERMIT_S)
    except SkitterError as error:
        return error.retryable  # the server is down: the worker waits for it


async def _is_crowded(runtime: Runtime, warm: WarmWorker) -> bool:
    """With more jobs than slots, the next message of this job queues behind the others'."""
    try:
        return (await read_capacity(runtime, warm.frontier)).is_oversubscribed
    except SkitterError:
        return False


async def _do_others_wait(runtime: Runtime) -> bool:
    """Tasks of the team, for example. If they do so twice in a row, they need this slot."""
    try:
        return await asyncio.to_thread(count_waiting, runtime.app) > 0
    except Exception:  # whatever a broker raises when it is away
        return False


async def _stop_when_idle(warm: WarmWorker, worker: Worker) -> None:
    busy_at = time.monotonic()
    while time.monotonic() - busy_at < LINGER_S:
        await asyncio.sleep(TICK_S)
        try:
            idle = (await warm.frontier.stats()).crawled
        except SkitterError:
            idle = False
        busy_at = busy_at if idle else time.monotonic()
    worker.stop()


async def _stop_without_work(worker: Worker) -> None:
    """Pumps for the other kind of pages may be waiting for this slot."""
    busy_at = time.monotonic()
    while time.monotonic() - busy_at < TURN_S:
        await asyncio.sleep(TICK_S)
        busy_at = busy_at if worker.is_idle else time.monotonic()
    worker.stop()


# --- items: into an output, or to waiting callers -------------------------------------------------


@asynccontextmanager
async def loading(runtime: Runtime, warm: WarmWorker, worker: Worker) -> AsyncIterator[None]:
    """Load items inside the block, and then until none are left. Raises the first error itself: a
    mistake in the output before the block is entered, any other once the worker has returned its
    leases. No page is to blame for it."""
    known, stop = asyncio.Event(), asyncio.Event()
    loaders = [asyncio.create_task(loader) for loader in _loaders(runtime, warm, known, stop)]
    if not loaders:
        yield
        return
    for loader in loaders:
        loader.add_done_callback(lambda _: known.set())
        loader.add_done_callback(lambda _: worker.stop())
    try:
        await known.wait()
        _raise_first(loaders)
        yield
        await _until_loaded(warm, loaders)
        stop.set()
        await asyncio.wait(loaders)
        _raise_first(loaders)
    finally:
        await cancel_all(loaders)


def _raise_first(tasks: list[asyncio.Task[None]]) -> None:
    """The first error of those that have ended; that the job was purged explains all others."""
    ended = [task for task in tasks if task.done() and not task.cancelled()]
    errors = [error for task in ended if (error := task.exception())]
    for error in sorted(errors, key=lambda one: not isinstance(one, PURGED)):
        raise error


def _loaders(
    runtime: Runtime, warm: WarmWorker, known: asyncio.Event, stop: asyncio.Event
) -> Iterator[Coroutine[Any, Any, None]]:
    """`known` is set when the output is known to be no mistake."""
    if warm.spec.kind == "scrape":
        known.set()
        yield _load(warm, lambda: nullcontext(ResultSink(runtime, warm.spec)), stop)
        yield store_failures(runtime, warm.frontier, stop)
    elif warm.spec.out:
        to = output_of(runtime, warm.spec)
        opening = partial(open_output, warm.frontier, to, known=known, stop=stop)
        yield _load(warm, opening, stop, to)


async def _load(
    warm: WarmWorker, opening: OpenSink, stop: asyncio.Event, to: Destination | None = None
) -> None:
    """An unreachable output is retried, now and by later pumps, and logged."""
    spec = warm.spec
    steps = cached_spider(spec.target).transforms if spec.out else []
    change = chain(steps) if steps else None
    loader = Loader(warm.frontier, warm.first.name, warm.first.logbook, stop, change, QUICK)
    loader.figures = figures = warm.first.delivery.figures
    await loader.run(opening)
    if to and (await warm.frontier.stats()).finished:
        await to.finish()
    with suppress(SkitterError):
        await figures.send(warm.frontier)


async def _until_loaded(warm: WarmWorker, loaders: list[asyncio.Task[None]]) -> None:
    deadline = time.monotonic() + LOAD_S
    while time.monotonic() < deadline and not any(loader.done() for loader in loaders):
        stats = await warm.frontier.stats()
        if not (has_outcomes(stats) if warm.spec.kind == "scrape" else stats.items):
            return
        await asyncio.sleep(0.02)
