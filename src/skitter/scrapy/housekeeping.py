"""What a node does besides its pump: extend leases, reclaim from dead nodes, send stats."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.engine.leases import extend
from skitter.engine.liveness import reclaim
from skitter.errors import JobMissing, SkitterError
from skitter.frontier.admin.items import count
from skitter.frontier.admin.workers import ask_for_spare, heartbeats, live_workers
from skitter.frontier.feed import take_feed
from skitter.report import some
from skitter.scrapy.job import KIND, dead_nodes
from skitter.scrapy.options import MAX_IN_FLIGHT
from skitter.scrapy.prefetch import QUIET_S, pause_s

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skitter.frontier.frontier import Frontier
    from skitter.scrapy.internals import ScrapyEngine
    from skitter.scrapy.mailbox import EngineCalls, Mailbox
    from skitter.scrapy.options import NodeOptions
    from skitter.scrapy.prefetch import Prefetch

TICK_S, SLOW_S = 0.5, 1.0


@dataclass(slots=True, kw_only=True)
class Housekeeping:
    """The chores of one node. A failing chore does not stop the others."""

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
            if any(one.links for one in self.mailbox.entries if one.since_s < slow_since):
                self.engine.call(self.calls.send_ahead)
            for chore in chores:
                await self.attempt(chore)
            await wait_until_set(stop, pause_s(TICK_S, self.mailbox.idle_s, longest_s=4.0))

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
        here = {id(one.lease) for one in self.mailbox.entries} | set(map(id, self.mailbox.ready))
        lost = [one for one in lost if id(one) in here]
        for lease in lost:
            with suppress(ValueError):
                self.mailbox.ready.remove(lease)
        if lost:
            self.say("warning", f"lost {some(len(lost), 'lease')}: other nodes have those requests")

    async def look_after_others(self) -> None:
        if self.mailbox.idle_s > QUIET_S and time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + 2 * QUIET_S
        # Including nodes that died long before this one started.
        dead = await dead_nodes(self.frontier, await heartbeats(self.frontier))
        if taken := sum(number for _, number in await reclaim(self.frontier, dead)):
            self.say("warning", f"took over {some(taken, 'request')} from a node that died")
        everybody = await live_workers(self.frontier)
        self.prefetch.nodes = sum(one.kind == KIND for one in everybody)
        if self.prefetch.nodes > 1 and not self._has_told:
            self._has_told = True
            self._tell_of_limits(self.prefetch.nodes)

    def _tell_of_limits(self, nodes: int) -> None:
        """Those who come from scrapy-redis expect them for each node."""
        limit = self.options.politeness.max_in_flight
        if self.options.limits_per == "job" and limit < MAX_IN_FLIGHT:
            self.say(
                "info",
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
