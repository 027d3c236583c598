"""Keeps as many pumps as each job needs, and triggers what is due at its end.

`schedule` has many callers: tasks that submit URLs, pumps, the watch of every Celery worker,
`skitter run --engine celery`. None of them is in charge: permits on the server keep them from
sending more pumps than wanted in total.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kombu.exceptions import OperationalError

from skitter.celery.broker import SILENTLY, publishing
from skitter.celery.config import destination
from skitter.celery.jobs import (
    count_pumps,
    is_over,
    read_spec,
    read_specs,
    register_job,
    unregister_if_over,
    unregister_job,
)
from skitter.crawl.plan import REQUESTS_PER_WORKER
from skitter.crawl.supervisor import STOP_S, TICK_S
from skitter.engine.leases import find_dead, reclaim
from skitter.errors import JobClosed, JobMissing
from skitter.frontier.records.drivers import (
    count_permits,
    issue_permits,
    lane_of,
    pump_slots,
    void_permits,
)
from skitter.frontier.transport.sync import in_thread
from skitter.frontier.workers import heartbeats, live_workers, log, read_log, wanted_workers
from skitter.model import State
from skitter.observe.report import some

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.celery.jobs import JobSpec
    from skitter.celery.runtime import Runtime
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.model import Lane, Stats


FINISH = "skitter.finish"
WATCH_S = 3.0  # how often each worker looks at all jobs
#: How long a pump's message may wait in Celery's queue before it counts as lost.
SENT_S = 30.0
#: Limit per worker and in total: more than anyone has.
MAX_SLOTS = 100_000
#: The slots of a worker that has not reported for this long do not count.
SLOTS_TTL_S = 5 * WATCH_S
#: A pump that has not reported for this long is dead or blocked. Half the usual lease.
SILENT_S = 30.0
#: How long a crawl with work has no pump before its user is told so.
NO_PUMP_S = 8.0
PING_S = 2.0
NO_WORKER = (
    "No Celery worker answers: start one with `skitter celery worker`, or with "
    "`celery -A skitter.celery worker`. The crawl waits for it."
)
BUSY = (
    "No Celery worker is at work on the crawl: {} may be busy with other tasks, or take other "
    "queues than {!r} (-Q). The crawl waits for one."
)
UNSIGNED = (
    "SKITTER_SECRET is not set: only workers started with this spider run it "
    "(`skitter celery worker --spiders ...`)."
)


async def schedule(runtime: Runtime, spec: JobSpec) -> None:
    """Send missing pumps, or do what is due at the end of the job."""
    try:
        frontier = await runtime.frontier(spec.job)
    except JobMissing:  # purged
        await unregister_job(await runtime.server(), spec.job)
        return
    await schedule_on(runtime, frontier, spec)


async def schedule_on(runtime: Runtime, frontier: Frontier, spec: JobSpec) -> None:
    """The same for a job that is open."""
    stats = await frontier.stats()
    if not is_over(spec, stats):
        await send_pumps(runtime, frontier, spec, stats)
    elif spec.has_callback:
        await send(runtime, frontier, spec, FINISH)
    else:
        await unregister_if_over(frontier, spec)


async def reschedule(runtime: Runtime, job: str) -> None:
    """The same with the current spec, which may have changed or be gone."""
    if spec := await read_spec(await runtime.server(), job):
        with suppress(JobClosed):  # half purged
            await schedule(runtime, spec)


async def schedule_all(runtime: Runtime) -> None:
    """A broken job does not hold up the others; `skitter doctor` reports it."""
    for spec in await read_specs(await runtime.server()):
        with suppress(JobClosed):
            await schedule(runtime, spec)


async def send_pumps(runtime: Runtime, frontier: Frontier, spec: JobSpec, stats: Stats) -> None:
    """Send missing pumps; surplus ones lose their permits."""
    await reclaim_leases(frontier)
    capacity = await read_capacity(runtime, frontier)
    requested = await wanted_workers(frontier)
    wanted = wanted_pumps(spec, stats, requested=requested, capacity=capacity)
    for lane, number in by_lane(spec, wanted).items():
        for permit in await issue_permits(frontier, number, ttl_s=SENT_S, lane=lane):
            await send(runtime, frontier, spec, "skitter.pump", permit)


async def send_first_pump(runtime: Runtime, frontier: Frontier, spec: JobSpec) -> None:
    """From a caller, who does not know how many the workers want: they send the others."""
    pumps = await count_permits(frontier.server, [spec.job])
    if not pumps[spec.job]:
        for permit in await issue_permits(frontier, 1, ttl_s=SENT_S):
            await send(runtime, frontier, spec, "skitter.pump", permit)


def by_lane(spec: JobSpec, wanted: int) -> dict[Lane, int]:
    """A job with both kinds of pages has at least one pump of each. Pure."""
    if not spec.plain:
        return {"": wanted}
    browsers = max(1, wanted // 2)
    return {"": max(1, wanted - browsers), "browser": browsers}


async def reclaim_leases(frontier: Frontier) -> None:
    """Return the leases of dead pumps to the queue before they expire. Not while the process still
    runs: then a handler blocks it, and has until its lease expires."""
    pumps = [heartbeat for heartbeat in await heartbeats(frontier) if heartbeat.kind == "celery"]
    dead = await find_dead(frontier, pumps, silent_s=SILENT_S, elsewhere=True)
    for beat, taken in await reclaim(frontier, dead):
        returned = f"{some(taken, 'request')} returned to the queue"
        text = f"process {beat.pid} on {beat.host} was killed, or a page blocked it; {returned}"
        await log(frontier, "error", f"celery-{os.getpid()}", text)


async def send(runtime: Runtime, frontier: Frontier, spec: JobSpec, task: str, *words: str) -> None:
    """Send a message about a job. If the broker is down, the next `schedule` sends it."""
    queues = runtime.settings.queues
    renders = lane_of(words[0] if words else "") == "browser" if spec.plain else spec.browser
    queue = queues.browser if renders else queues.http
    silently = SILENTLY if task == FINISH else {}

    def publish() -> None:
        where = destination(runtime.app, task, queue)
        with publishing(), runtime.brief.producer() as producer:
            options = {"producer": producer} | where | silently
            runtime.app.tasks[task].apply_async((spec.job, *words), **options)

    try:
        await in_thread(publish)  # it blocks
    except OperationalError as error:
        await log(
            frontier, "warning", f"celery-{os.getpid()}", f"the broker does not answer: {error}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What all Celery workers can run at a time, from one job's point of view."""

    slots: int
    others: int = 0  # pumps of other jobs
    jobs: int = 1  # jobs with pumps, including this one
    share: float = 1.0  # of the slots that pumps may take
    own: int = 0  # pumps of this job

    @property
    def for_pumps(self) -> int:
        """One slot is kept for other tasks in any case."""
        return min(self.slots - 1, max(1, int(self.share * self.slots)))

    @property
    def free(self) -> int:
        """Slots for this job's pumps: what the others leave, or a fair share if they have taken
        more than theirs, which they then give back."""
        return max(self.for_pumps - self.others, self.for_pumps // self.jobs)

    @property
    def is_oversubscribed(self) -> bool:
        """If true, jobs take turns, and other tasks wait as well."""
        return self.jobs > 1 and self.others + 1 > max(1, self.for_pumps)


def wanted_pumps(spec: JobSpec, stats: Stats, *, requested: int | None, capacity: Capacity) -> int:
    """What the operator (`skitter scale`) or the caller set; otherwise as many as the work needs,
    within the free slots. Pure."""
    if stats.state is State.PAUSED:
        return 1  # it waits for the job to be resumed
    asked = spec.pumps if requested is None else requested
    if asked:
        return min(asked, capacity.slots) if capacity.slots else asked
    waiting = -(-stats.remaining // REQUESTS_PER_WORKER)
    return max(1, min(capacity.free, waiting, _busy_pumps(spec, stats.leased, capacity.own)))


def _busy_pumps(spec: JobSpec, leased: int, own: int) -> int:
    """How many pumps the pages in flight fill by half. More would only take slots from others: the
    hosts allow no more pages at a time. While pumps are full, their number doubles; it falls again
    when they are filled by less than a quarter."""
    config, renders = spec.config, spec.browser and not spec.plain
    carries = config.browser.concurrency if renders else config.workers.concurrency
    return max(-(-2 * leased // carries), min(own, -(-4 * leased // carries)))


async def read_capacity(runtime: Runtime, frontier: Frontier) -> Capacity:
    """Not by the runtime's own connection: `run --engine celery` has another loop."""
    server, job = frontier.server, frontier.job
    pumps = await count_pumps(server)
    others = [number for name, number in pumps.items() if number and name != job]
    return Capacity(
        slots=await count_slots(server),
        others=sum(others),
        jobs=len(others) + 1,
        share=runtime.settings.share or 1.0,
        own=pumps.get(job, 0),
    )


def count_waiting(app: Any) -> int:
    """Messages in the queues of this worker that no process has taken; blocks."""
    total = 0
    with app.connection_for_read() as connection:
        for name in app.amqp.queues.consume_from:
            with suppress(*connection.channel_errors), connection.channel() as channel:
                if size := getattr(channel, "_size", None):  # kombu's own, as of Redis, where a
                    total += size(name)  # passive declaration overlooks the key prefix
                else:
                    total += channel.queue_declare(name, passive=True).message_count
    return total


async def report_slots(server: Server, machine: str, slots: int) -> None:
    """A Celery worker reports how many tasks it runs at a time."""
    seconds, _ = await server.command("TIME")
    await pump_slots(server).put(machine, b"%d %d" % (slots, int(seconds)))


async def confirm_slots(server: Server, machine: str) -> None:
    """On behalf of a worker whose slots are all taken: it cannot run its watch."""
    slots, _ = _parse_slots(await pump_slots(server).get(machine) or b"")
    if slots:
        await report_slots(server, machine, slots)


async def count_slots(server: Server) -> int:
    """How many tasks all workers that reported recently run at a time."""
    now, total = int((await server.command("TIME"))[0]), 0
    for machine, reported in (await pump_slots(server).all()).items():
        slots, at = _parse_slots(reported)
        if now - at < SLOTS_TTL_S:
            total += slots
        elif now - at > 20 * SLOTS_TTL_S:
            await pump_slots(server).remove(machine)
    return min(total, MAX_SLOTS)


def _parse_slots(reported: bytes) -> tuple[int, int]:
    """Slots and the time of the report. Anyone may have written it."""
    words = reported.split()
    if len(words) != 2 or not all(word.isdigit() and len(word) < 16 for word in words):
        return 0, 0
    return min(int(words[0]), MAX_SLOTS), int(words[1])


@dataclass(slots=True, kw_only=True)
class CeleryPool:
    """The workers of `skitter run --engine celery`: pumps, wherever Celery runs them."""

    runtime: Runtime
    frontier: Frontier
    spec: JobSpec
    progress: Callable[[str], None]
    _registered: bool = False
    _pumped_at: float = field(default_factory=time.monotonic)  # when a pump was last seen
    _told: bool = False  # why there has been none since
    _log_read_to: str = "-"

    async def scale(self, _: int | None, stats: Stats) -> None:
        """What is registered at first is an earlier crawl that never ended: its settings and its
        output are not ours. Pumps unregister a job that looked finished for a moment, so register
        it again. The number of pumps is not ours to decide: other machines send some, too."""
        server = self.frontier.server
        if is_over(self.spec, stats):
            return
        if not self._registered or await read_spec(server, self.spec.job) is None:
            await register_job(server, self.spec)
            self._registered = True
        await send_pumps(self.runtime, self.frontier, self.spec, stats)
        await self._show_errors()
        await self._tell_idle()

    async def _show_errors(self) -> None:
        """Show why a pump could not start, e.g. its worker has another secret, or no such file."""
        first = self._log_read_to == "-"
        for event in await read_log(self.frontier, self._log_read_to):
            self._log_read_to = event.id
            if event.level == "error" and not first:
                self._told = True
                self.progress(event.text)

    async def _tell_idle(self) -> None:
        """Say what it waits for, once each time. Missing pumps are sent in any case."""
        if await self.running():
            self._pumped_at, self._told = time.monotonic(), False
        elif not self._told and time.monotonic() - self._pumped_at > NO_PUMP_S:
            self._told = True
            with suppress(OperationalError):  # `send` reports it
                names, queue = await in_thread(self._answering), self.runtime.settings.queues.http
                self.progress(BUSY.format(", ".join(names), queue) if names else NO_WORKER)

    def _answering(self) -> list[str]:
        """The Celery workers, also those whose processes are all busy; blocks."""
        with publishing(), self.runtime.brief.producer() as producer:
            connection = producer and producer.connection
            found = self.runtime.app.control.ping(timeout=PING_S, connection=connection)
        return sorted(name for one in found for name in one)

    async def running(self) -> int:
        return sum(worker.kind == "celery" for worker in await live_workers(self.frontier))

    async def stop(self) -> None:
        """Void the permits: within seconds, pumps notice and return their leases."""
        await unregister_job(self.frontier.server, self.spec.job)
        await void_permits(self.frontier)
        for _ in range(round(STOP_S / TICK_S)):
            if not await self.running():
                break
            await asyncio.sleep(TICK_S)
        await void_permits(self.frontier)  # again, for a pump that was just being sent
