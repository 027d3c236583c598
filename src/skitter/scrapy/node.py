"""A node: the frontier's side of a Scrapy process, on a thread with an event loop of its own.

Scrapy's scheduler must answer at once, and Redis may be far away: so the engine's thread only
takes from and puts into a `Mailbox`, and this thread does the rest, in batches. It goes on when
a callback blocks the engine, so leases are kept; while the server is away it waits, and nothing in
the mailbox is lost.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import uvloop

from skitter.app import open_server
from skitter.engine.leases import extend
from skitter.engine.liveness import reclaim
from skitter.engine.watchdog import Watchdog
from skitter.errors import JobMissing, SkitterError
from skitter.frontier.admin.adopted import is_adopted
from skitter.frontier.admin.workers import Vitals, ask_for_spare, live_workers
from skitter.frontier.batches import has_messages, take_batch
from skitter.frontier.feed import take_feed
from skitter.scrapy.delivery import Delivery
from skitter.scrapy.job import KIND, dead_nodes, join_run, open_shared, remove_if_last
from skitter.scrapy.prefetch import IDLE_S, Prefetch, pause_s
from skitter.worker.pulse import Logbook, Pulse, cancel_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.scrapy.feed import FeedOptions
    from skitter.scrapy.internals import ScrapyEngine
    from skitter.scrapy.mailbox import Link, Mailbox
    from skitter.scrapy.options import NodeOptions

logger = logging.getLogger("skitter.scrapy")

MANY = 50  # endings that are handed in without waiting for more
LINGER_S, HURRY_S = 0.05, 0.005
FEED_S, LOOK_S, UNREADABLE_S = 0.2, 5.0, 2.0
TICK_S, SLOW_S = 0.5, 1.0
AWAY_S = 1.0
CLOSE_S = 30.0
GIVE_UP_S = CLOSE_S + 5  # from then on, Scrapy does not wait for this thread


class Node:
    """One process at work on a job. Public methods are for the engine's thread."""

    frontier: Frontier
    prefetch: Prefetch

    def __init__(
        self,
        options: NodeOptions,
        mailbox: Mailbox,
        engine: ScrapyEngine,
        feed: FeedOptions | None,
    ) -> None:
        self.options, self.mailbox, self.engine, self.feed = options, mailbox, engine, feed
        #: What the engine's thread does for us: read messages, send ahead; and its numbers.
        self.on_feed: Callable[[str, list[bytes]], None] = lambda name, messages: None
        self.on_tick: Callable[[], None] = lambda: None
        self.on_dropped: Callable[[list[Link]], None] = lambda links: None
        self.statistics: Callable[[], Iterable[tuple[Any, ...]]] = list
        self.logbook = Logbook()
        self._watchdog = Watchdog(options.stuck_s) if options.stuck_s else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudged = self._hurried = self._away = self._is_open = False
        self._ailing: dict[str, str] = {}  # what fails beside the pump, and why
        self._some, self._many, self._stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._was_read = asyncio.Event()  # the batch of the feed
        self._reason = ""
        self._spare = -1  # not known
        self._on_closed: Callable[[], None] = lambda: None

    def start(self, opened: Callable[[BaseException | None], None]) -> None:
        """Begin; `opened` is called in the engine's thread when the job is open, or cannot be."""
        thread = threading.Thread(target=self._run, args=(opened,), name="skitter", daemon=True)
        thread.start()

    def nudge(self, *, hurry: bool = False) -> None:
        """There is something in the outbox; hurry: the engine has too little to do."""
        if self._loop is None or (self._nudged and (self._hurried or not hurry)):
            return
        self._nudged, self._hurried = True, self._hurried or hurry
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_nudge)

    def note_read(self) -> None:
        """The batch of the feed was read; there may be another."""
        self.mailbox.is_fed = False
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._was_read.set)

    def stop(self, reason: str, on_closed: Callable[[], None]) -> None:
        """Hand in what there is, hand back the rest; then the engine's thread is told."""
        self._reason, self._on_closed = reason, on_closed
        if self._watchdog:
            self._watchdog.end()
        _in_time(GIVE_UP_S, self.engine.call, on_closed)
        loop = self._loop
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._on_stop)
        except RuntimeError:  # it has ended by itself
            loop = None
        if loop is None:
            on_closed()

    def say(self, level: str, text: str) -> None:
        """Into the log of this process, and into that of the cluster."""
        logger.log(logging.getLevelNamesMapping()[level.upper()], text)
        self.logbook(level, text)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self, opened: Callable[[BaseException | None], None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
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
        """A node that starts while the server is away waits, as those that run do."""
        try:
            yield
        except SkitterError as error:
            if self._is_open or not error.retryable:
                raise
            self._survives(error)
            await _wait(self._stop, AWAY_S)

    async def _join(self, server: Server) -> None:
        frontier = self.frontier = await open_shared(server, self.options)
        memory = self.mailbox.memory
        memory.epoch, memory.keeps_depths = lambda: frontier.epoch, lambda: frontier.keeps_depths
        stats = await self.frontier.stats()
        self.mailbox.scheduled = stats.pending + stats.delayed
        self.mailbox.run = await join_run(self.frontier, stats)
        self.mailbox.is_adopted = await is_adopted(self.frontier)
        self.prefetch = Prefetch(self.frontier, self.options, self.mailbox)
        self.delivery = Delivery(self)
        self.pulse = Pulse(
            frontier=self.frontier,
            name=self.frontier.client,
            kind=KIND,
            logbook=self.logbook,
            vitals=self._vitals,
        )
        # In this order, and before anything is leased: who is seen takes the spare from others.
        await self.pulse.beat()
        await self._share_or_spare()

    async def _work(self) -> None:
        self.say("info", f"scrapy node started, job {self.options.job}")
        jobs = (self.pulse.run, self._keep_leases, self._tick, self._read_feed)
        helpers = [asyncio.create_task(run()) for run in jobs]
        if self._watchdog:
            helpers.append(asyncio.create_task(self._watchdog.run(self.engine.call)))
        for helper in helpers:
            helper.add_done_callback(self._mourn)
        try:
            await self._pump()
        finally:
            await cancel_all(helpers)
        with suppress(SkitterError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._wind_down()

    def _vitals(self) -> Vitals:
        delivery = self.delivery
        return Vitals(pages=delivery.pages, errors=delivery.errors, active=len(self.mailbox.active))

    def _mourn(self, helper: asyncio.Task[None]) -> None:
        if not helper.cancelled() and (error := helper.exception()):
            self._break_down(error)

    def _break_down(self, error: BaseException) -> None:
        logger.error("skitter: internal error, the node stops", exc_info=error)
        self.engine.close_spider("skitter_error")

    # --- handing in and taking --------------------------------------------------------------------

    async def _pump(self) -> None:
        """While the server is away, keep everything and try again."""
        while not self._stop.is_set():
            try:
                await self.delivery.all()
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
        """More for the engine; if it is closing, what it will not take is for others at once."""
        if not self.engine.is_closing:
            return await self.prefetch.take()
        await self.prefetch.hand_back()
        return False, IDLE_S

    def _survives(self, error: SkitterError) -> bool:
        if error.retryable:
            if not self._away:
                self.say("warning", f"{error} Nothing is lost; trying again.")
            self._away = True
            return True
        self.say("error", f"{error} The node stops.")
        self.engine.close_spider("job_gone" if isinstance(error, JobMissing) else "skitter_error")
        return False

    def _note_back(self) -> None:
        if self._away:
            self.say("info", "the server is back")
        self._away = False

    async def _rest(self, seconds: float) -> None:
        """Until the engine nudges; then a moment more, for others to come along."""
        await _wait(self._some, seconds)
        if self._some.is_set() and not self._stop.is_set():
            await _wait(self._many, LINGER_S)
            if self._hurried:
                await _wait(self._stop, HURRY_S)
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

    # --- beside it --------------------------------------------------------------------------------

    async def _keep_leases(self) -> None:
        """In a task of its own: whatever else fails or waits, no page under way is taken away."""
        while True:
            done = await self._attempt(self._extend)
            every_s = self.options.lease_s / 4
            await asyncio.sleep(every_s if done else min(every_s, TICK_S))

    async def _tick(self) -> None:
        """Twice a second: who is here, which pages take long, what there is to tell."""
        steps = (
            self._look_after_others,
            self._share_or_spare,
            self._take_own_feed,
            self._send_statistics,
        )
        while True:
            slow_since = time.monotonic() - SLOW_S
            if any(one.links for one in self.mailbox.entries if one.since_s < slow_since):
                self.engine.call(self.on_tick)
            for step in steps:
                await self._attempt(step)
            await asyncio.sleep(pause_s(TICK_S, self.mailbox.idle_s, longest_s=1.0))

    async def _attempt(self, step: Callable[[], Awaitable[None]]) -> bool:
        """One that fails stops no other. A lasting error is said once, until it is over."""
        what = step.__name__.strip("_").replace("_", " ")
        try:
            await step()
        except SkitterError as error:
            # If the server is away, or the job is, whoever leases says so.
            known = error.retryable or isinstance(error, JobMissing)
            if not known:
                self._say_once(what, str(error))
            return False
        self._ailing.pop(what, None)
        return True

    def _say_once(self, what: str, error: str) -> None:
        if self._ailing.get(what) != error:
            self._ailing[what] = error
            self.say("error", f"{what}: {error}")

    async def _look_after_others(self) -> None:
        everybody = await live_workers(self.frontier)
        self.prefetch.nodes = sum(one.kind == KIND for one in everybody)
        dead = await dead_nodes(self.frontier, everybody)
        if taken := sum(count for _, count in await reclaim(self.frontier, dead)):
            self.say("warning", f"took over {taken} requests of a node that died")

    async def _share_or_spare(self) -> None:
        """Alone, hold some requests more than may be in flight: Scrapy's slots keep that limit.
        Not if somebody changed it while we are at work."""
        ours = self.options.politeness
        unchanged = self.frontier.options.politeness == ours
        alone = self.prefetch.nodes == 1 and unchanged and self.options.prefetch > 0
        wanted = min(ours.max_in_flight, self.options.concurrency) if alone else 0
        if wanted != self._spare:
            self._spare = await ask_for_spare(self.frontier, self.pulse.name, wanted)

    async def _take_own_feed(self) -> None:
        await take_feed(self.frontier)  # the job's own: skitter:JOB:feed

    async def _extend(self) -> None:
        lost = await extend(self.frontier, self.mailbox.held, ttl_s=self.options.lease_s)
        # Not what was sent meanwhile: the answer to that says whether it came too late.
        here = {id(one.lease) for one in self.mailbox.entries} | set(map(id, self.mailbox.ready))
        lost = [one for one in lost if id(one) in here]
        for lease in lost:
            with suppress(ValueError):
                self.mailbox.ready.remove(lease)
        if lost:
            self.say("warning", f"{len(lost)} leases were lost; somebody else has those requests")

    async def _send_statistics(self) -> None:
        for command in self.statistics():
            await self.frontier.server.command(*command)

    async def _read_feed(self) -> None:
        """One batch at a time, so that the engine can breathe. Now and then also if there are no
        messages, for what a node took and did not finish."""
        look_at = 0.0
        while self.feed is not None:
            batch, now = None, time.monotonic()
            try:
                if not self.engine.is_closing and (
                    now > look_at or await has_messages(self.frontier, self.feed.keys)
                ):
                    batch = await take_batch(
                        self.frontier, self.feed.keys, limit=self.feed.batch_size
                    )
                    look_at = now + LOOK_S
            except SkitterError as error:
                if not error.retryable:  # else the server is away: whoever leases says so
                    self._say_once("the feed cannot be read", str(error))
                    await asyncio.sleep(UNREADABLE_S)
            else:
                self._ailing.pop("the feed cannot be read", None)
            if batch:
                self.prefetch.note_life()
                self._was_read.clear()
                self.mailbox.is_fed = True
                self.engine.call(self.on_feed, *batch)
                await self._was_read.wait()
            else:
                await asyncio.sleep(pause_s(FEED_S, self.mailbox.idle_s, longest_s=2 * FEED_S))

    # --- the end ----------------------------------------------------------------------------------

    async def _wind_down(self) -> None:
        await self.delivery.all()
        if left := self.mailbox.held:
            await self.frontier.release(left)
            self.say("info", f"handed back {len(left)} requests")
        self.say("info", f"scrapy node stopped ({self._reason})")
        await self._attempt(self._send_statistics)
        await self.pulse.end()
        if not self.options.persist and self._reason == "finished":
            await remove_if_last(self.frontier)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _in_time(seconds: float, tell: Callable[..., object], *args: object) -> None:
    """Whatever hangs, the process must be able to end."""
    timer = threading.Timer(seconds, tell, args)
    timer.daemon = True
    timer.start()
