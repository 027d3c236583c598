"""The job that nodes share, and what a node does besides its pump."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.engine.leases import extend, find_dead, reclaim
from skitter.errors import JobMissing, ServerUnreachable, SkitterError
from skitter.frontier.control import set_slot
from skitter.frontier.feed import take_feed
from skitter.frontier.items import count
from skitter.frontier.jobs import create_job, open_job, purge_job
from skitter.frontier.records.drivers import read_run, start_run
from skitter.frontier.workers import ask_for_spare, heartbeats, live_workers
from skitter.observe.report import some
from skitter.scrapy.node.prefetch import LONGEST_S, QUIET_S, RARE_S, is_done, pause_s
from skitter.scrapy.settings import MAX_IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.frontier.workers import Heartbeat
    from skitter.model import Stats
    from skitter.scrapy.internals import ScrapyEngine
    from skitter.scrapy.node.mailbox import EngineCalls, Mailbox
    from skitter.scrapy.node.prefetch import Prefetch
    from skitter.scrapy.settings import NodeOptions


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
    if stats.remaining or stats.shelved or stats.trapped or stats.unhandled or not is_done(stats):
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
    gone = {node.name for node in await dead_nodes(frontier, everybody)}
    me = frontier.client
    now = await frontier.server_time()
    return sum(
        beat.name != me and beat.name not in gone and not _was_before_us(beat, now)
        for beat in everybody
    )


def _was_before_us(heartbeat: Heartbeat, now: float) -> bool:
    """Whether it was an earlier process on this host with our PID: a container's first process
    gets the same PID after each restart."""
    is_ours = (heartbeat.host, heartbeat.pid) == (socket.gethostname(), os.getpid())
    return is_ours and heartbeat.started_at < now - (time.monotonic() - _LOADED_AT)


async def dead_nodes(frontier: Frontier, everybody: Iterable[Heartbeat]) -> list[Heartbeat]:
    """Nodes on this machine that died without signing off."""
    nodes = [heartbeat for heartbeat in everybody if heartbeat.kind == KIND]
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


#: It is said at once, and again after pauses that double from the first to the last of these.
FIRST_S, LAST_S = 5.0, 300.0


@dataclass(slots=True)
class Absence:
    """A server that is away: how often to say so, and how long a node that starts waits for it.
    Pure: time is an argument, in seconds."""

    start_s: float  # how long a node that starts waits
    pause_s: float = 0.0  # 0: nothing is away
    say_at: float = 0.0
    give_up_at: float | None = None

    def is_news(self, now: float) -> bool:
        """Whether to say it, at this time or again."""
        if self.pause_s and now < self.say_at:
            return False
        self.pause_s = min(LAST_S, self.pause_s * 2) or FIRST_S
        self.say_at = now + self.pause_s
        return True

    def end(self) -> bool:
        """Whether there was one."""
        was_away, self.pause_s = self.pause_s > 0, 0.0
        return was_away

    def check(self, error: SkitterError, now: float) -> None:
        """Raises it, with what to do, when a node that starts has waited long enough."""
        if not isinstance(error, ServerUnreachable):
            return
        if self.give_up_at is None:
            self.give_up_at = now + self.start_s
        if now >= self.give_up_at:
            raise ServerUnreachable(
                f"{error} The node has waited {self.start_s:g} s for it and stops: correct "
                "REDIS_URL (or REDIS_HOST, REDIS_PORT), start the server, or raise SKITTER_START_S."
            ) from None


TICK_S, SLOW_S = 0.5, 1.0


@dataclass(slots=True, kw_only=True)
class Housekeeping:
    """The chores of one node: extend leases, reclaim from dead nodes, send stats. A failing chore
    does not stop the others."""

    frontier: Frontier
    options: NodeOptions
    mailbox: Mailbox
    engine: ScrapyEngine
    calls: EngineCalls
    prefetch: Prefetch
    say: Callable[[str, str], None]  # level, text
    _failing: dict[str, str] = field(default_factory=dict)  # chore -> error
    _spare: int = -1  # unknown
    _counted: int = 0  # items
    _look_at: float = 0.0
    _has_told: bool = False  # of the limits

    async def keep_leases(self) -> None:
        """Runs in its own task, so that no page loses its lease because a chore fails or hangs."""
        while True:
            done = await self.attempt(self.extend_leases)
            every_s = self.options.lease_s / 4
            await asyncio.sleep(every_s if done else min(every_s, TICK_S))

    async def tick(self, stop: asyncio.Event) -> None:
        """Twice a second, or less often when idle: run the chores, send links of slow pages. Ends
        after a round: a count that is cancelled before its answer would be sent again."""
        chores = (
            self.look_after_others,
            self.share_or_spare,
            self.take_own_feed,
            self.send_statistics,
            self.count_items,
        )
        while not stop.is_set():
            slow_since = time.monotonic() - SLOW_S
            if any(entry.links for entry in self.mailbox.entries if entry.since_s < slow_since):
                self.engine.call(self.calls.send_ahead)
            for chore in chores:
                await self.attempt(chore)
            await wait_until_set(stop, pause_s(TICK_S, self.mailbox.idle_s, longest_s=LONGEST_S))

    async def attempt(self, chore: Callable[[], Awaitable[None]]) -> bool:
        """Whether it succeeded. If the server or the job is gone, the pump reports it."""
        what = chore.__name__.replace("_", " ")
        try:
            await chore()
        except SkitterError as error:
            if not (error.retryable or isinstance(error, JobMissing)):
                self.note_problem(what, str(error))
            return False
        self.note_problem(what, None)
        return True

    def note_problem(self, what: str, error: str | None) -> None:
        """Log a persistent error once; None: it is over."""
        if error is None:
            self._failing.pop(what, None)
        elif self._failing.get(what) != error:
            self._failing[what] = error
            self.say("error", f"{what}: {error}")

    async def extend_leases(self) -> None:
        lost = await extend(self.frontier, self.mailbox.held, ttl_s=self.options.lease_s)
        # Not those sent in the meantime: their reply says whether they were too late.
        here = {id(entry.lease) for entry in self.mailbox.entries} | set(
            map(id, self.mailbox.ready)
        )
        lost = [one for one in lost if id(one) in here]
        for lease in lost:
            with suppress(ValueError):
                self.mailbox.ready.remove(lease)
        if lost:
            self.say("warning", f"lost {some(len(lost), 'lease')}: other nodes have those requests")

    async def look_after_others(self) -> None:
        if self.mailbox.idle_s > QUIET_S and time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + RARE_S
        # Including nodes that died long before this one started.
        dead = await dead_nodes(self.frontier, await heartbeats(self.frontier))
        if taken := sum(number for _, number in await reclaim(self.frontier, dead)):
            self.say("warning", f"took over {some(taken, 'request')} from a node that died")
        everybody = await live_workers(self.frontier)
        self.prefetch.nodes = sum(beat.kind == KIND for beat in everybody)
        if self.prefetch.nodes > 1 and not self._has_told:
            self._has_told = True
            self._tell_of_limits(self.prefetch.nodes)

    def _tell_of_limits(self, nodes: int) -> None:
        """Those who come from scrapy-redis expect them for each node."""
        limit = self.options.politeness.max_in_flight
        if self.options.limits_per == "job" and limit < MAX_IN_FLIGHT:
            self.say(
                "warning",
                f"{nodes} nodes share the limits of a domain: {limit} requests at a time, not "
                f"{nodes * limit}. Multiply CONCURRENT_REQUESTS_PER_DOMAIN by your nodes for more, "
                "or set SKITTER_LIMITS_PER = 'node'.",
            )

    async def share_or_spare(self) -> None:
        """A lone node may hold more requests than may be in flight: Scrapy's slots enforce that
        limit, unless it was changed on the server, which they do not see."""
        ours = self.options.politeness
        unchanged = self.frontier.options.politeness == ours
        alone = self.prefetch.nodes == 1 and unchanged and self.options.prefetch > 0
        wanted = min(ours.max_in_flight, self.options.concurrency) if alone else 0
        if wanted != self._spare:
            self._spare = await ask_for_spare(self.frontier, self.frontier.client, wanted)

    async def take_own_feed(self) -> None:
        await take_feed(self.frontier)  # the job's own: skitter:JOB:feed

    async def count_items(self) -> None:
        """Items stored by Scrapy's own exports and pipelines. If the node is killed, its last half
        second is not counted."""
        scraped = self.mailbox.scraped
        await count(self.frontier, stored=scraped - self._counted)
        self._counted = scraped

    async def send_statistics(self) -> None:
        for command in self.calls.statistics():
            await self.frontier.server.command(*command)


async def wait_until_set(event: asyncio.Event, seconds: float) -> None:
    """Wait for it, but not longer than that."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
