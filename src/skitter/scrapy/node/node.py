"""A node: the frontier's side of a Scrapy process, on a thread with its own event loop.

Scrapy's scheduler must not block, and Redis may be far away: the engine's thread only reads and
writes a `Mailbox`, and this thread does the rest, in batches. It keeps running when a callback
blocks the engine, so leases are extended; while the server is down it waits, and nothing in the
mailbox is lost.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import uvloop

from skitter.app import open_server
from skitter.engine.departures import Departures
from skitter.engine.pulse import BEAT_S, Pulse, cancel_all
from skitter.engine.watchdog import Watchdog
from skitter.errors import JobMissing, SkitterError
from skitter.fetch.http.guard import Resolver
from skitter.frontier.dead import dead_letters
from skitter.frontier.identities import SCRAPY_REDIS, scrapy_redis_identity
from skitter.frontier.jobs import note_fingerprinter
from skitter.frontier.records.drivers import is_adopted, note_spider
from skitter.frontier.workers import Vitals
from skitter.observe.logs import ClusterLog
from skitter.observe.report import some
from skitter.scrapy.internals import heard
from skitter.scrapy.node.housekeeping import (
    KIND,
    Absence,
    Housekeeping,
    join_run,
    open_shared,
    remove_if_last,
    wait_until_set,
)
from skitter.scrapy.node.prefetch import IDLE_S, FeedReader, Prefetch, is_done, pause_s
from skitter.scrapy.node.sender import ResultSender

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.scrapy.internals import ScrapyEngine
    from skitter.scrapy.node.mailbox import EngineCalls, Mailbox
    from skitter.scrapy.node.prefetch import FeedOptions
    from skitter.scrapy.settings import NodeOptions


logger = logging.getLogger("skitter.scrapy")

MANY = 50  # results to send without waiting for more
LINGER_S, HURRY_S = 0.05, 0.005
AWAY_S = 1.0
CONNECTIONS = 2  # one waits for messages
LONGEST_BEAT_S = 7.0  # others believe in a node for 15 s
LAST_TICK_S, CLOSE_S = 3.0, 30.0
GIVE_UP_S = LAST_TICK_S + CLOSE_S + 5  # after this, Scrapy stops waiting for this thread


class Node:
    """One process working on a job. Public methods are for the engine's thread."""

    frontier: Frontier
    departures: Departures
    prefetch: Prefetch
    delivery: ResultSender
    housekeeping: Housekeeping
    pulse: Pulse

    def __init__(
        self,
        options: NodeOptions,
        mailbox: Mailbox,
        engine: ScrapyEngine,
        calls: EngineCalls,
        *,
        feed: FeedOptions | None,
    ) -> None:
        self.options, self.mailbox, self.engine = options, mailbox, engine
        self.calls, self.feed = calls, feed
        self.logbook = ClusterLog("skitter.scrapy")
        self._watchdog = Watchdog(options.stuck_s) if options.stuck_s else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudged = self._hurried = self._is_open = False
        self._absence = Absence(options.start_s)
        self._some, self._many, self._stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._feed_reader: FeedReader | None = None
        self._reason = ""
        self.has_failed = False  # for exit code 1
        self._on_closed: Callable[[], None] = lambda: None

    def start(self, opened: Callable[[BaseException | None], None]) -> None:
        """Start; `opened` is called in the engine's thread once the job is open or has failed."""
        thread = threading.Thread(target=self._run, args=(opened,), name="skitter", daemon=True)
        thread.start()

    def nudge(self, *, hurry: bool = False) -> None:
        """There is something in the outbox; hurry: the engine is running out of work."""
        if self._loop is None or (self._nudged and (self._hurried or not hurry)):
            return
        self._nudged, self._hurried = True, self._hurried or hurry
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_nudge)

    def note_feed_read(self) -> None:
        """The feed batch was read; there may be another."""
        self.mailbox.is_fed = False
        if self._loop is not None and self._feed_reader is not None:
            self._feed_reader.note_read(self._loop)

    async def wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it on the node's thread and await the result on the engine's."""
        if self._loop is None:  # the thread has ended
            work.close()
        else:
            await heard(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stop(self, reason: str, on_closed: Callable[[], None]) -> None:
        """Send all results, return unused leases, then call `on_closed`."""
        self._reason, self._on_closed = reason, on_closed
        if self._watchdog:
            self._watchdog.end()
        _in_time(GIVE_UP_S, self.engine.call, on_closed)
        loop = self._loop
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._on_stop)
        except RuntimeError:  # the loop is closed
            loop = None
        if loop is None:
            on_closed()

    def say(self, level: str, text: str) -> None:
        """Write to this process's log and to the cluster's."""
        self.logbook(level, text)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self, opened: Callable[[BaseException | None], None]) -> None:
        loop_factory = uvloop.new_event_loop
        with self.logbook.attached(), asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(self._live(opened))
        self.engine.call(self._on_closed)

    async def _live(self, opened: Callable[[BaseException | None], None]) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            while not self._is_open and not self._stop.is_set():
                async with self._waiting_for_server(), open_server(self.options.server) as server:
                    await self._join(server)
                    self._note_back()
                    self._is_open = True
                    self.engine.call(opened, None)
                    await self._work()
        except Exception as error:
            if self._is_open:
                self._break_down(error)
            else:
                self.engine.call(opened, error)
        finally:
            self._loop = None

    @asynccontextmanager
    async def _waiting_for_server(self) -> AsyncIterator[None]:
        """A node that starts while the server is down waits for a while: perhaps it starts too, or
        its address is wrong."""
        try:
            yield
        except SkitterError as error:
            if self._is_open or not error.retryable:
                raise
            self._absence.check(error, time.monotonic())
            self._survives(error, f"Waiting up to {self.options.start_s:g} s for it.")
            await wait_until_set(self._stop, AWAY_S)

    async def _join(self, server: Server) -> None:
        server.use_at_most(CONNECTIONS)
        frontier = self.frontier = await open_shared(server, self.options)
        memory = self.mailbox.memory
        memory.epoch, memory.keeps_depths = lambda: frontier.epoch, lambda: frontier.keeps_depths
        self.mailbox.refused.epoch = lambda: frontier.epoch
        stats = await self.frontier.stats()
        self.mailbox.scheduled = stats.pending + stats.delayed
        self.mailbox.run = self.options.run or await join_run(self.frontier, stats)
        self.mailbox.is_adopted = await is_adopted(self.frontier)
        await self._tell_how_pages_are_identified()
        await self._check_spider(begins=is_done(stats))
        self.departures = Departures(frontier, Resolver())
        self.delivery = ResultSender(
            frontier,
            self.mailbox,
            self.options,
            say=self.say,
            departures=self.departures,
            on_duplicates=partial(self.engine.call, self.calls.drop),
        )
        self.prefetch = Prefetch(frontier, self.options, self.mailbox, self.delivery.sessions)
        self.housekeeping = Housekeeping(
            frontier=frontier,
            options=self.options,
            mailbox=self.mailbox,
            engine=self.engine,
            calls=self.calls,
            prefetch=self.prefetch,
            say=self.say,
        )
        self._feed_reader = self._open_feed(self.feed) if self.feed else None
        self.pulse = Pulse(
            frontier=self.frontier,
            name=self.frontier.client,
            kind=KIND,
            logbook=self.logbook,
            vitals=self._vitals,
            also=self.delivery.report,
            pause_s=lambda: pause_s(BEAT_S, self.mailbox.idle_s, longest_s=LONGEST_BEAT_S),
        )
        # In this order, before leasing: heartbeats decide whether the spare is granted or revoked.
        await self.pulse.beat()
        await self.housekeeping.share_or_spare()

    async def _tell_how_pages_are_identified(self) -> None:
        if self.calls.identify is None:
            return
        is_adopted = self.mailbox.is_adopted
        self.frontier.identify = scrapy_redis_identity if is_adopted else self.calls.identify
        name = SCRAPY_REDIS if is_adopted else self.options.fingerprinter
        await note_fingerprinter(self.frontier, name)

    async def _check_spider(self, *, begins: bool) -> None:
        """Two spiders have methods of the same names: nobody else would notice."""
        ours = self.options.spider
        if (known := await note_spider(self.frontier, ours, begins=begins)) != ours:
            self.say(
                "warning",
                f"the requests of {self.options.job} are of the spider {known!r}, and this node "
                f"calls the methods of {ours!r} for them: give each spider its own SKITTER_JOB.",
            )

    def _open_feed(self, feed: FeedOptions) -> FeedReader:
        return FeedReader(
            frontier=self.frontier,
            options=feed,
            engine=self.engine,
            mailbox=self.mailbox,
            prefetch=self.prefetch,
            read=self.calls.read_feed,
            on_problem=partial(self.housekeeping.note_problem, "the feed cannot be read"),
        )

    async def _work(self) -> None:
        self.say("info", f"scrapy node started, job {self.options.job}")
        jobs = [self.pulse.run, self.housekeeping.keep_leases]
        if self._feed_reader:
            jobs.append(self._feed_reader.run)
        if self._watchdog:
            jobs.append(partial(self._watchdog.run, self.engine.call))
        ticking = asyncio.create_task(self.housekeeping.tick(self._stop))
        helpers = [ticking, *(asyncio.create_task(run()) for run in jobs)]
        for helper in helpers:
            helper.add_done_callback(self._stop_if_failed)
        try:
            await self._pump()
        finally:
            self._stop.set()
            await asyncio.wait([ticking], timeout=LAST_TICK_S)
            await cancel_all(helpers)
        with suppress(SkitterError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._wind_down()

    def _vitals(self) -> Vitals:
        delivery, archived = self.delivery, self.delivery.archived
        return Vitals(
            pages=delivery.pages,
            errors=delivery.errors,
            active=len(self.mailbox.active),
            note=archived.trouble if archived else "",
        )

    def _stop_if_failed(self, helper: asyncio.Task[None]) -> None:
        if not helper.cancelled() and (error := helper.exception()):
            self._break_down(error)

    def _break_down(self, error: BaseException) -> None:
        logger.error("skitter: internal error, the node stops", exc_info=error)
        self.has_failed = True
        self.engine.close_spider("skitter_error")

    # --- sending and leasing ----------------------------------------------------------------------

    async def _pump(self) -> None:
        """While the server is down, keep everything and retry."""
        while not self._stop.is_set():
            try:
                await self.delivery.flush()
                news, rest_s = await self._supply()
            except SkitterError as error:
                if not self._survives(error):
                    await self._stop.wait()
                    return
                news, rest_s = False, AWAY_S
            else:
                self._note_back()
            if self.prefetch.is_cancelled:
                self.engine.close_spider("cancelled")
            elif news:
                self.engine.wake()
            await self._rest(rest_s)

    async def _supply(self) -> tuple[bool, float]:
        """Lease more for the engine; if it is closing, return what it will not use."""
        if not self.engine.is_closing:
            return await self.prefetch.take()
        await self.prefetch.return_unused()
        return False, IDLE_S

    def _survives(self, error: SkitterError, then: str = "Nothing is lost; trying again.") -> bool:
        if error.retryable:
            if self._absence.is_news(time.monotonic()):
                self.say("warning", f"{error} {then}")
            return True
        self.has_failed, is_gone = True, isinstance(error, JobMissing)
        gone = f"the job {self.options.job} is gone: it was purged, or its server has lost it."
        self.say("error", f"{gone if is_gone else error} The node stops.")
        self.engine.close_spider("job_gone" if is_gone else "skitter_error")
        return False

    def _note_back(self) -> None:
        if self._absence.end():
            self.say("info", "the server is back")

    async def _rest(self, seconds: float) -> None:
        """Wait for a nudge, then a moment longer to collect a batch."""
        await wait_until_set(self._some, seconds)
        if self._some.is_set() and not self._stop.is_set():
            await wait_until_set(self._many, LINGER_S)
            if self._hurried:
                await wait_until_set(self._stop, HURRY_S)
        self._nudged = self._hurried = False
        self._some.clear()
        self._many.clear()

    def _on_nudge(self) -> None:
        self._some.set()
        if self._hurried or len(self.mailbox.outbox) >= MANY:
            self._many.set()

    def _on_stop(self) -> None:
        self._stop.set()
        self._some.set()
        self._many.set()

    # --- shutdown ---------------------------------------------------------------------------------

    async def _wind_down(self) -> None:
        await self.delivery.flush()
        if left := self.mailbox.held:
            await self.frontier.release(left)
            self.say("info", f"returned {some(len(left), 'request')} to the queue")
        self.say("info", f"scrapy node stopped ({self._reason})")
        await self.housekeeping.attempt(self.housekeeping.send_statistics)
        await self.housekeeping.attempt(self.housekeeping.count_items)
        self.mailbox.idle_s = 0.0  # its last figures are sent, however long it was idle
        await self.pulse.end()
        if self.delivery.archived:
            await self.delivery.archived.close()
        if self._reason == "finished" and self.feed is None:
            self.has_failed = await self._is_futile()
        if not self.options.persist and self._reason == "finished":
            await remove_if_last(self.frontier)

    async def _is_futile(self) -> bool:
        """Whether nothing came of the whole crawl; says why."""
        stats = await self.frontier.stats()
        if stats.done or not stats.dead:
            return False
        async for letter in dead_letters(self.frontier):
            self.say(
                "error",
                f"all {some(stats.dead, 'request')} became dead letters, "
                f"{letter.url.removeprefix('unsent:')} because: {letter.reason}",
            )
            break
        return True


def _in_time(seconds: float, tell: Callable[..., object], *args: object) -> None:
    """The process must be able to exit even if something hangs."""
    timer = threading.Timer(seconds, tell, args)
    timer.daemon = True
    timer.start()
