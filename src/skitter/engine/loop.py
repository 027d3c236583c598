"""One process: keep N attempts going, send what comes of them, stop cleanly."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from skitter.engine.leases import Strays, extend, is_suspect
from skitter.engine.parts import WorkerOptions
from skitter.engine.pulse import Pulse, cancel_all, rss_mb
from skitter.engine.watchdog import Stalls, watch
from skitter.errors import JobMissing, ServerUnreachable, SkitterError
from skitter.frontier.feed import hear, take_feed
from skitter.frontier.sites.learned import look_again
from skitter.frontier.workers import Vitals
from skitter.model import Lane, Leased, State
from skitter.observe.report import duration, some
from skitter.spider.seeding import begin_due_round, tell_round
from skitter.spider.source import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from skitter.engine.attempt import Attempts
    from skitter.engine.delivery import Delivery
    from skitter.frontier.delays import Share
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease
    from skitter.observe.logs import ClusterLog

SHARE_S = 0.02  # how long a job waits for those that are behind in their share
IDLE_S = 0.2  # how long to wait when there is nothing to do
FEED_S = 0.2
SCHEDULE_S = 1.0
MEMORY_S = 0.5
STATS_S = 5.0
TEND_S = 10.0
NOTICE_S = 2.0  # by when leasing has noticed an outage, too
MANY = 2**31
#: Results that wait to be sent. With more, a worker leases nothing: a server too slow to take them
#: would have them wait in memory, and until their leases expire.
MAX_UNSENT = 1000
GONE_S = 1.0  # how often a worker that stays looks for its removed job
#: How long sending results and returning leases may take, after the grace or a second signal.
LAST_SEND_S = 5.0


@dataclass(slots=True)
class Worker:
    """Leases, attempts, delivery."""

    frontier: Frontier
    attempts: Attempts
    delivery: Delivery
    logbook: ClusterLog
    options: WorkerOptions = field(default_factory=WorkerOptions)
    strays: Strays = None  # type: ignore[assignment]  # of an earlier one in this process
    share: Share | None = None  # of this machine; None: it begins all that it can
    _active: dict[asyncio.Task[None], tuple[Lease, float]] = field(default_factory=dict)
    _free: asyncio.Event = field(default_factory=asyncio.Event)
    _wakes: int = 0  # a lane that clears the event must not keep it from another
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: Counter[Lane] = field(default_factory=Counter)  # pages in flight, by lane
    #: A lane's sleeping pump is woken when no more than this many pages are in flight.
    _wakes_at: dict[Lane, int] = field(default_factory=dict)
    _has_files: asyncio.Event = field(default_factory=asyncio.Event)  # to look for, or it is over
    _is_done: bool = False  # the lanes of pages are
    _turnstile: asyncio.Lock = field(default_factory=asyncio.Lock)  # one lane leases at a time
    _signals: int = 0
    _held: list[Lease] = field(default_factory=list)  # leased but not begun
    _extending: dict[int, asyncio.Task[None]] = field(default_factory=dict)  # by shard
    _told: int = 0  # of how many shards the log says that they are away
    _leash: asyncio.Timeout | None = None
    _broken: BaseException | None = None
    _is_gone: bool = False  # the job
    _away_since: float | None = None  # the server, as leasing has it
    has_begun: bool = False  # later errors are not caused by how it was started

    def __post_init__(self) -> None:
        if self.strays is None:
            self.strays = Strays(self.frontier, self.attempts.spider, self.logbook)

    @property
    def name(self) -> str:
        return self.frontier.client

    @property
    def is_stopped(self) -> bool:
        """Whether somebody stopped it."""
        return self._signals > 0

    async def run(self) -> None:
        """Work until the crawl has finished, or until told to stop."""
        self.logbook.own()
        tally = self.delivery.tally
        # A Celery process begins a pump every 20 s: one worker, to those who watch.
        again, tally.began = tally.began > 0, tally.began or time.monotonic()
        pulse = self._pulse()
        self.delivery.on_sent = self._wake
        helpers: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(None) as self._leash:
                self._watch_ends()
                await self.attempts.begin()
                self.logbook("debug" if again else "info", "worker started")
                self.has_begun = True
                helpers += map(self._start, (self._deliver, pulse.run, self._extend, self._feed))
                await self._tend_strays()
                helpers.append(self._start(self._keep_tending))
                helpers.append(self._start(Stalls(partial(self.logbook, "warning")).run))
                if self.options.keep_alive:
                    helpers += map(self._start, (self._watch_schedule, self._listen))
                if self.options.max_memory_mb is not None:
                    helpers.append(self._start(self._watch_memory))
                if stuck_s := self.options.stuck_s:
                    helpers.append(self._start(partial(watch, stuck_s, self.options.stuck_log)))
                await self._pump_all()
                await self._wind_down()
                self.logbook("info" if self.options.for_s is None else "debug", "worker stopped")
                await cancel_all(helpers)
                await pulse.end()
        except TimeoutError:
            raise self._abandon() from None
        finally:
            self._leash = None
            await cancel_all([*helpers, *self._active, *self._extending.values()])
        if self._broken:
            raise self._broken

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        helper = asyncio.create_task(work())
        helper.add_done_callback(self._stop_if_failed)
        return helper

    def _stop_if_failed(self, helper: asyncio.Task[None]) -> None:
        """Helpers run forever: without one, the worker would only seem to work."""
        if not helper.cancelled() and (error := helper.exception()):
            self._broken = error
            self.logbook("error", f"internal error: {error!r}; the worker stops")
            self.stop()

    def stop(self) -> None:
        """Lease nothing more; after a second call, do not wait for attempts in flight.

        From here on everything is bounded in time, even if the server stops answering.
        """
        self._signals += 1
        self._stop.set()
        self._wake()
        self._has_files.set()
        if self._leash and self._signals <= 2:
            grace_s = self.options.grace_s if self._signals == 1 else 0.0
            self._leash.reschedule(asyncio.get_running_loop().time() + grace_s + LAST_SEND_S)

    # --- leasing ----------------------------------------------------------------------------------

    async def _pump_all(self) -> None:
        pages = [(lane, slots) for lane, slots in self.options.serves.items() if lane != "file"]
        files = asyncio.create_task(self._until_broken(self._pump_files))
        try:
            pumps = (partial(self._pump, lane, slots) for lane, slots in pages)
            await asyncio.gather(*map(self._until_broken, pumps))
        finally:
            self._is_done = True
            self._has_files.set()
        await files

    async def _until_broken(self, pump: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """An error that breaks a lane's pump is raised after pending results are sent."""
        try:
            while await pump():
                pass
        except SkitterError as error:
            self._broken = error
            self.stop()

    async def _pump_files(self) -> bool:
        """Lease files when there are some: the pumps of pages learn it by the way, so that a crawl
        without files asks for none."""
        await self._has_files.wait()
        if self._is_done or self._stop.is_set():
            return False
        self._has_files.clear()
        if (free := self.options.serves.get("file", 0) - self._busy["file"]) > 0:
            async with self._turnstile:
                leases, _ = await self._lease(free, "file")
                await self._begin_all(leases)
        return True

    async def _pump(self, lane: Lane, slots: int) -> bool:
        """Refill free slots in batches, never with more than can start now. False: it is over.

        By halves: responses come in bursts, and while one half is handled the other is fetched.
        """
        few, half = (max(1, slots // part) for part in (4, 2))
        self._wakes_at[lane] = slots - few  # not for every page that ends
        while (
            slots - self._busy[lane] < few or len(self.delivery) > MAX_UNSENT
        ) and not self._stop.is_set():
            self._free.clear()
            await self._free.wait()
        del self._wakes_at[lane]
        async with self._turnstile:
            if self._stop.is_set():
                return False
            self._free.clear()
            wakes = self._wakes  # what ends during the call may change its answer
            leases, again_in_s = await self._lease(min(slots - self._busy[lane], half), lane)
            await self._begin_all(leases)
        if leases:
            return True
        if not self._active and not len(self.delivery) and await self._is_over():
            return False
        if wakes == self._wakes:
            await self._rest(min(IDLE_S, IDLE_S if again_in_s is None else max(0.01, again_in_s)))
        return True

    async def _begin_all(self, leases: list[Lease]) -> None:
        if self._stop.is_set():
            self._held += leases
        elif len(leases) == 1 and is_suspect(leases[0], self.frontier):
            await self._quarantine(leases[0])
        else:
            for lease in leases:
                self._begin(lease)

    async def _lease(self, limit: int, lane: Lane) -> tuple[list[Lease], float | None]:
        try:
            leased, leases = await self._lease_worthy(limit, lane)
        except JobMissing as gone:
            self._note_gone(gone)
            await self._rest(GONE_S)
            return [], IDLE_S
        except SkitterError as error:
            if not error.retryable:
                raise
            if self._away_since is None:
                self._away_since = time.monotonic()
                self.logbook("warning", f"{error} Waiting.")
            await self._rest(1.0)
            return [], IDLE_S
        self._is_gone = False
        if self._away_since is not None:
            away_s, self._away_since = time.monotonic() - self._away_since, None
            self.logbook("info", f"the server takes calls again after {duration(away_s)}")
        self._tell_away()
        if leased.has_files and lane != "file":
            self._has_files.set()
        if leased.state is State.CANCELLED:
            self.stop()
        return leases, leased.again_in_s

    async def _lease_worthy(self, limit: int, lane: Lane) -> tuple[Leased, list[Lease]]:
        """Leases that the stages admit; empty only if there are no others."""
        ttl_s = self.options.lease_in_s(lane)
        while True:
            leased = await self._lease_share(limit, ttl_s, lane)
            worthy = await self.attempts.admit(await self.strays.without(leased.leases))
            if worthy or not leased.leases or self._stop.is_set():
                return leased, worthy

    async def _lease_share(self, limit: int, ttl_s: float, lane: Lane) -> Leased:
        """As many as this job's share of the machine allows."""
        lease = partial(self.frontier.lease, ttl_s=ttl_s, lane=lane, in_company=True)
        if self.share is None:
            return await lease(limit)
        if not (granted := await self.share.take(limit)):
            return Leased([], State.RUNNING, SHARE_S)
        leased = await lease(granted)
        await self.share.give_back(granted - len(leased.leases))
        return leased

    async def _tell_unless_away(self, what: str, error: SkitterError) -> None:
        """`_lease` reports a server that is away, once: what notices it first gives it the time."""
        if isinstance(error, ServerUnreachable):
            await asyncio.sleep(NOTICE_S)
        if self._away_since is None:
            self.logbook("warning", f"{what}: {error}")

    def _tell_away(self) -> None:
        """Once when shards go away, once when they are back."""
        if len(away := self.frontier.away) == self._told:
            return
        why = next((f" ({error})" for error in away.values() if error), "")
        of_all = f"{len(away)} of {some(self.frontier.layout.shards, 'shard')}"
        if away:
            self.logbook("warning", f"{of_all} away{why}: their pages wait, the others go on")
        else:
            self.logbook("info", "all shards are back")
        self._told = len(away)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight or waiting to be sent."""
        return not self._active and not len(self.delivery)

    def _note_gone(self, gone: JobMissing) -> None:
        """`run --fresh` removes and recreates a job: a worker that stays waits for that."""
        if not self.options.keep_alive:
            raise gone
        if not self._is_gone:
            self.logbook("warning", "the job was removed; waiting until it is created again")
        self._is_gone = True

    async def _is_over(self) -> bool:
        if self.frontier.away:
            return False
        try:
            # Of several shards one may hang, while others have work.
            async with asyncio.timeout(STATS_S if self.frontier.layout.shards > 1 else None):
                stats = await self.frontier.stats()
                await look_again(self.frontier, stats)
                if stats.unhandled and await self._tend_strays():
                    return False
            return stats.crawled and not self.options.keep_alive
        except TimeoutError:
            return False
        except SkitterError as error:
            if not (error.retryable or self.options.keep_alive):
                raise
            return False  # the server is away: unknown

    async def _tend_strays(self) -> int:
        with suppress(SkitterError):
            return await self.strays.tend()
        return 0

    async def _keep_tending(self) -> None:
        while True:
            await asyncio.sleep(TEND_S)
            await self._tend_strays()

    def _begin(self, lease: Lease) -> None:
        self._busy[lease.request.lane] += 1
        task = asyncio.create_task(self._attempt(lease))
        self._active[task] = lease, time.monotonic()
        task.add_done_callback(self._end)

    async def _quarantine(self, lease: Lease) -> None:
        """It may be what kills workers: run it alone, and tell the server so."""
        self._held.append(lease)
        if await self._is_alone() and (alone := await self._isolate(lease)):
            self._begin(alone)
            await self._is_alone()

    async def _isolate(self, lease: Lease) -> Lease | None:
        """The lease under its new token, no longer held. None: it is lost, or its shard is away and
        it comes back when the lease expires."""
        if lease not in self._held:  # it was lost meanwhile
            return None
        self._held.remove(lease)
        try:
            ttl_s = self.options.lease_in_s(lease.request.lane)
            return await self.frontier.isolate(lease, ttl_s=ttl_s)
        except SkitterError as error:
            self.logbook("warning", f"{lease.url} has to wait: {error}")
            return None

    async def _is_alone(self) -> bool:
        """Wait until nothing is in flight or waiting to be sent. False: told to stop."""
        while self._is_at_work and not self._stop.is_set():
            self._free.clear()
            await self._free.wait()
        return not self._stop.is_set()

    @property
    def _is_at_work(self) -> bool:
        """Results for a shard that is away may wait for long."""
        return bool(self._active) or (len(self.delivery) > 0 and not self.frontier.away)

    async def _attempt(self, lease: Lease) -> None:
        self.delivery.add(await self.attempts.make(lease))

    def _end(self, task: asyncio.Task[None]) -> None:
        lease, _ = self._active.pop(task)
        lane = lease.request.lane
        self._busy[lane] -= 1
        if lane == "file":
            self._has_files.set()
        if self._busy[lane] <= self._wakes_at.get(lane, MANY):
            self._wake()
        if not self._active:
            self.delivery.hurry()
        if not task.cancelled() and (error := task.exception()):
            # A bug of ours. The lease expires and the URL comes back, so nobody else reports it.
            self.logbook("error", f"internal error: {error!r}")

    def _wake(self) -> None:
        self._wakes += 1
        self._free.set()

    async def _rest(self, seconds: float) -> None:
        """Wait, but not if an attempt ended, results were sent, or the worker was stopped since the
        last lease."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._free.wait()

    # --- stopping ---------------------------------------------------------------------------------

    def _watch_ends(self) -> None:
        loop = asyncio.get_running_loop()
        if self.options.watch_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
        if self.options.for_s is not None:
            loop.call_later(self.options.for_s, self._finish_up)

    def _finish_up(self) -> None:
        """Lease nothing more; attempts in flight have the whole grace."""
        self._stop.set()
        self._wake()
        self._has_files.set()

    async def _watch_memory(self) -> None:
        """No page is blamed: the cause may be large pages, or a leak in a handler or a library. A
        worker that has ended no page yet goes on: another would do no better."""
        limit_mb, tally = self.options.max_memory_mb or 0.0, self.delivery.tally
        while not self._stop.is_set():
            await asyncio.sleep(MEMORY_S)
            if (used := rss_mb()) > limit_mb and tally.pages + tally.errors:
                self.logbook(
                    "warning",
                    f"the worker uses {used:,.0f} MB, over --max-memory {limit_mb:,.0f}: it "
                    "finishes its pages, then a new one replaces it",
                )
                self._finish_up()

    async def _wind_down(self) -> None:
        """Finish attempts in flight within the grace, return the rest."""
        deadline = time.monotonic() + self.options.grace_s
        while self._active and self._signals < 2 and time.monotonic() < deadline:
            await asyncio.wait(self._active, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
        left = [lease for lease, _ in self._active.values()] + self._held
        await cancel_all(list(self._active))
        try:
            await self._return(left)
        except JobMissing as gone:
            self._note_gone(gone)

    async def _return(self, left: list[Lease]) -> None:
        await self.delivery.flush()
        await self.delivery.end_hooks(LAST_SEND_S / 2)
        if left:
            await self.delivery.report_departures(left)
            await self.frontier.release(left)
            self._held.clear()
            self.logbook("info", f"returned {some(len(left), 'request')} to the queue")

    def _abandon(self) -> SkitterError:
        """Unsent results are not lost: the leases expire, and others do the work again."""
        unsent, left = len(self.delivery), len(self._held) + len(self._active)
        return ServerUnreachable(
            f"the server did not answer in time: {some(unsent, 'result')} could not be sent, and "
            f"{some(left, 'request')} could not be returned. All of them come back when their "
            f"leases expire, within {self.options.lease_s:g} s."
        )

    # --- beside the attempts ----------------------------------------------------------------------

    async def _deliver(self) -> None:
        while True:
            try:
                await self.delivery.run()
            except JobMissing as gone:
                self._note_gone(gone)
                self._wake()  # its results were dropped

    async def _extend(self) -> None:
        """Extend the leases of long attempts, of results that cannot be sent and of requests that
        wait; cancel attempts whose lease was lost. A shard that is away holds up no other."""
        while True:
            await asyncio.sleep(self.options.lease_s / 4)
            old_s = self.options.lease_s / 3
            began = time.monotonic() - old_s
            old = [lease for lease, since in self._active.values() if since < began]
            by_shard: defaultdict[int, list[Lease]] = defaultdict(list)
            for lease in old + self._held + self.delivery.kept(old_s):
                by_shard[self.frontier.layout.shard_of(lease.host)].append(lease)
            for shard, leases in by_shard.items():
                if shard not in self._extending or self._extending[shard].done():
                    self._extending[shard] = self._start(partial(self._extend_all, leases))

    async def _extend_all(self, leases: list[Lease]) -> None:
        """Extend leases of one shard."""
        try:
            for lane in self.options.serves:
                some, ttl_s = _of_lane(leases, lane), self.options.lease_in_s(lane)
                for lease in await extend(self.frontier, some, ttl_s=ttl_s):
                    self._note_lost(lease)
        except SkitterError as error:
            self.logbook("warning", f"cannot extend leases: {error}")

    def _note_lost(self, lost: Lease) -> None:
        for task, (lease, _) in self._active.items():
            if lease is lost:
                task.cancel()
                self.logbook("warning", f"{lost.url}: its lease was lost while it was processed")
        self._held = [lease for lease in self._held if lease is not lost]

    async def _watch_schedule(self) -> None:
        """Begin the rounds of the job's schedule, as other workers may."""
        while True:
            try:
                if begun := await begin_due_round(self.frontier, self.attempts.spider):
                    self.logbook(*tell_round(begun))
            except JobMissing:
                pass  # `_lease` reports it
            except SkitterError as error:
                await self._tell_unless_away("cannot begin a scheduled round", error)
            await asyncio.sleep(SCHEDULE_S)

    async def _listen(self) -> None:
        """Look at once when a page was asked for."""
        while True:
            try:
                if await hear(self.frontier):
                    self._wake()
            except SkitterError:  # `_lease` reports it
                await asyncio.sleep(GONE_S)

    async def _feed(self) -> None:
        while True:
            try:
                await take_feed(self.frontier)
            except JobMissing:
                pass  # `_lease` reports it
            except SkitterError as error:
                await self._tell_unless_away("cannot read the feed", error)
            await asyncio.sleep(FEED_S)

    def _pulse(self) -> Pulse:
        return Pulse(
            frontier=self.frontier,
            name=self.name,
            kind=self.options.kind,
            logbook=self.logbook,
            vitals=self._vitals,
            parent=self.options.parent,
            on_orphaned=self.stop,
            also=self.delivery.report,
            began=self.delivery.tally.began,
            handlers=tuple(sorted(self.attempts.spider.handlers)),
            spider=version_of(self.attempts.spider),
        )

    def _vitals(self) -> Vitals:
        tally = self.delivery.tally
        archived = self.delivery.archived
        active, note = len(self._active), self.strays.note or (archived.trouble if archived else "")
        return Vitals(pages=tally.pages, errors=tally.errors, active=active, note=note)


def _of_lane(leases: list[Lease], lane: Lane) -> list[Lease]:
    return [lease for lease in leases if lease.request.lane == lane]
