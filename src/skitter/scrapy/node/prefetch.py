"""What a node reads ahead: leases, and messages that others push."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from skitter.engine.leases import exclude, is_suspect, must_wait
from skitter.errors import SkitterError
from skitter.frontier.feed import Messages, has_messages, take_batch
from skitter.frontier.records.drivers import signs_of_work
from skitter.model import Completion, Failure, Lease, State
from skitter.settings import MAX_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats
    from skitter.scrapy.internals import ScrapyEngine
    from skitter.scrapy.node.cookies import SharedSessions
    from skitter.scrapy.node.mailbox import Mailbox
    from skitter.scrapy.settings import NodeOptions


IDLE_S = 0.25
LONGEST_S = 6.0
SURE_S = 60.0  # look properly at least this often
YEAR_S = 365 * 86_400.0
QUIET_S = 1.0  # when nothing has happened for so long, chores can wait
RARE_S = 30.0  # for how long


def pause_s(usual_s: float, idle_s: float, *, longest_s: float) -> float:
    """How long to rest: a tenth of the time that the whole cluster has been idle."""
    return max(usual_s, min(longest_s, idle_s / 10))


def is_done(stats: Stats) -> bool:
    """Nothing is left for any node, or nothing was ever added."""
    return stats.crawled or not stats.seen


def _moment_of(lease: Lease) -> float:
    """When it may be sent at the earliest, in seconds since the epoch; 0: at any time."""
    moment = lease.request.meta.get("not_before")
    return moment if isinstance(moment, float) else 0.0


class Prefetch:
    """Leases requests ahead of the engine, without hoarding, and detects the end of the crawl."""

    def __init__(
        self,
        frontier: Frontier,
        options: NodeOptions,
        mailbox: Mailbox,
        sessions: SharedSessions,
    ) -> None:
        self.frontier, self.options, self.mailbox = frontier, options, mailbox
        self._sessions = sessions
        self.nodes = 1  # known to be working on this job
        self.is_cancelled = False
        self.is_drained = False  # nothing was queued when we last looked
        self._moved_at, self._picture = time.monotonic(), (0, 0, 0)
        self._is_left_none = False  # for any node, as of the last look
        self._signs: Any = None  # that nothing has come since a look that found nothing
        self._look_at = 0.0

    async def take(self) -> tuple[bool, float]:
        """Whether to wake the engine, and how long to rest if nothing happens."""
        if any(is_suspect(lease, self.frontier) for lease in self.mailbox.ready.copy()):
            await self._isolate()
            return True, IDLE_S  # it runs alone, once everything else is sent
        room = self.room()
        if room < 1 or (room < self.options.concurrency // 4 and self.mailbox.held):
            return False, IDLE_S
        version = self.mailbox.version
        signs = await self._read_signs()
        if signs is not None and signs == self._signs and time.monotonic() < self._look_at:
            return self._note_idle(version), self._rest_s(IDLE_S)
        leased = await self.frontier.lease(room, ttl_s=self.options.lease_s, in_company=True)
        self.is_cancelled = leased.state is State.CANCELLED
        self.mailbox.memory.refresh()  # before the engine sees these leases
        if leased.leases:
            wanted = await self._identified(await self._without_excluded(leased.leases))
            wanted = await self._without_early(wanted)
            await self._sessions.open(wanted)
            self.mailbox.ready.extend(wanted)
            if self.options.prefetch:
                self.mailbox.supplied = len(self.mailbox.ready) + len(self.mailbox.active)
            self.note_life()
        # A cancelled crawl is over too, but does not count as finished.
        news = bool(leased.leases) or (
            not self.is_cancelled and await self._see_whether_it_is_over(version)
        )
        nothing = not leased.leases and leased.again_in_s is None and self._is_left_none
        self._signs, self._look_at = signs if nothing else None, time.monotonic() + SURE_S
        again_in_s = IDLE_S if leased.again_in_s is None else max(0.01, leased.again_in_s)
        return news, self._rest_s(min(IDLE_S, again_in_s))

    async def _isolate(self) -> None:
        """Tell the server that the next one runs alone. Until then, the engine leaves it where it
        is."""
        ready = self.mailbox.ready
        if self.mailbox.is_working or not ready or not must_wait(first := ready[0], self.frontier):
            return
        alone = await self.frontier.isolate(first, ttl_s=self.options.lease_s)
        if not ready or ready[0] is not first:  # the chore that extends leases met its new token
            ready.extendleft([alone] if alone else [])
        elif alone:
            ready[0] = alone
        else:
            ready.popleft()

    def _rest_s(self, usual_s: float) -> float:
        return pause_s(usual_s, self.mailbox.idle_s, longest_s=LONGEST_S)

    async def _read_signs(self) -> Any:
        """What tells that there may be something to lease, once the whole cluster is idle."""
        return None if self.mailbox.idle_s < QUIET_S else await signs_of_work(self.frontier)

    async def _without_excluded(self, leases: Sequence[Lease]) -> list[Lease]:
        """Set aside what the operator has excluded: Scrapy's engine does not check."""
        limits, kept, excluded = self.frontier.options.limits, list[Lease](), list[Failure]()
        for lease in leases:
            if failure := exclude(lease, limits):
                excluded.append(failure)
            else:
                kept.append(lease)
        if excluded:
            await self.frontier.bury(excluded)
        return kept

    async def _without_early(self, leases: list[Lease]) -> list[Lease]:
        """Put off what is not to be sent before a later time."""
        moments = [_moment_of(lease) for lease in leases]
        if not any(moments):
            return leases
        now = await self.frontier.server_time()
        for lease, moment in zip(leases, moments, strict=True):
            if moment > now:
                await self.frontier.release([lease], after_s=min(moment - now, YEAR_S))
        return [one for one, moment in zip(leases, moments, strict=True) if moment <= now]

    async def _identified(self, leases: Sequence[Lease]) -> list[Lease]:
        """Without those that were added before a node had told how pages are identified. They are
        added again with their identity, and dropped if the crawl has seen them."""
        if (identify := self.frontier.identify) is None:
            return list(leases)
        kept, again = list[Lease](), list[Completion]()
        for lease in leases:
            request = lease.request
            if request.identity:
                kept.append(lease)
                continue
            identity = identify(request.url, request.method, request.body)
            link = replace(request, identity=identity, priority=lease.priority)
            again.append(Completion(lease=lease, links=[link]))
        if again:
            await self.frontier.complete(again)
        return kept

    async def return_unused(self) -> None:
        """Release leases that the engine will never start, for other nodes."""
        if leases := list(self.mailbox.ready):
            await self.frontier.release(leases)
            for lease in leases:
                with suppress(ValueError):  # lost meanwhile
                    self.mailbox.ready.remove(lease)

    def room(self) -> int:
        """How many more this node may lease, leaving the other nodes their share."""
        held = self.mailbox.held
        limit = self.options.concurrency + self.options.prefetch
        if self.nodes > 1:
            # Nodes split each host's in-flight limit; with many hosts, each takes what it can.
            slots = len({lease.host for lease in held})
            share = -(-self.options.politeness.max_in_flight // self.nodes)
            limit = min(limit, max(1, slots) * share)
        return limit - len(held)

    def note_life(self) -> None:
        self._moved_at, self.mailbox.idle_s = time.monotonic(), 0.0
        self.is_drained = False

    async def _see_whether_it_is_over(self, version: int) -> bool:
        """Over for all: nothing pending, delayed or leased, on this node or another."""
        mailbox = self.mailbox
        if not mailbox.is_quiet:
            return False
        stats = await self.frontier.stats()
        picture = stats.seen, stats.done, stats.leased
        self._is_left_none = is_done(stats)
        if picture != self._picture or not self._is_left_none:
            self._picture = picture
            self.note_life()
        self.is_drained = not (stats.pending or stats.delayed)
        return self._note_idle(version)

    def _note_idle(self, version: int) -> bool:
        """Whether it has been idle for long enough to be over."""
        mailbox = self.mailbox
        mailbox.idle_s = time.monotonic() - self._moved_at
        is_late = mailbox.idle_s >= self.options.linger_s
        over = self._is_left_none and is_late and mailbox.is_quiet
        mailbox.finished_at = version if over else -1
        return over


FEED_S, LOOK_S, UNREADABLE_S, ROOM_S, BLOCK_S = 0.2, 5.0, 2.0, 0.05, 2.0
LONGEST_BLOCK_S = 8.0
PATIENT_S = 5.0


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Where messages come from; the first key has precedence."""

    keys: tuple[str, ...]
    batch_size: int = 16
    is_list: bool = True  # as far as the settings say

    def priority(self, score: float, behind: int) -> int:
        """Of a message that has none of its own. A score counts among the messages of its key; of
        several keys, an earlier one comes first, whatever the scores. Pure."""
        if len(self.keys) == 1:
            return round(score)
        most = MAX_PRIORITY // (2 * len(self.keys) - 1)
        return round(max(-most, min(most, score))) - 2 * most * behind


@dataclass(slots=True, kw_only=True)
class FeedReader:
    """The feed of a RedisSpider: keys that others push messages to, read in batches.

    It passes batches to the engine one at a time, so that it can do other work in between, and only
    as it begins their requests: what waits stays in its key, where later messages can overtake it
    and other programs can count it.
    """

    frontier: Frontier
    options: FeedOptions
    engine: ScrapyEngine
    mailbox: Mailbox
    prefetch: Prefetch
    read: Callable[[Messages], None]  # in the engine's thread
    on_problem: Callable[[str | None], None]  # None: it is over
    _look_at: float = 0.0
    _blocks: bool = True  # messages are in a list, as far as we know
    _has_waited: bool = False
    _is_news: bool = False
    _waiting: int = 0  # requests of messages that this node has not made up for
    _begun: int = 0
    _fed: int = 0
    _was_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self._blocks = self.options.is_list and len(self.options.keys) == 1
        while True:
            if not self._has_room():
                await asyncio.sleep(ROOM_S)
            elif batch := await self._take():
                self.prefetch.note_life()
                self._was_read.clear()
                self.mailbox.is_fed = True
                self.engine.call(self.read, batch)
                await self._was_read.wait()
            else:
                await self._wait()

    def note_read(self, loop: asyncio.AbstractEventLoop) -> None:
        """From the engine's thread: there may be another batch."""
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._was_read.set)

    def _has_room(self) -> bool:
        """Whether fewer requests of messages wait than a batch has. Any request that this node has
        begun counts, as others may begin those; and nothing waits in an empty queue. If all that
        waits is for hosts that rest, other messages get their turn now and then."""
        mailbox = self.mailbox
        added, ended = mailbox.fed - self._fed, mailbox.begun - self._begun
        self._fed, self._begun = mailbox.fed, mailbox.begun
        self._waiting = max(0, self._waiting + added - ended)
        if self.prefetch.is_drained and mailbox.is_quiet:
            self._waiting = 0
        rests = mailbox.is_quiet and time.monotonic() > self._look_at + PATIENT_S
        return rests or self._waiting < self.options.batch_size

    async def _has_news(self) -> bool:
        if self._blocks and self._has_waited:
            return self._is_news
        return await has_messages(self.frontier, self.options.keys)

    async def _wait(self) -> None:
        """Until there may be messages. A list is waited for by a command that moves its first
        message to where it is; other types cannot be waited for without taking one."""
        key = self.options.keys[0]
        if not self._blocks or self.engine.is_closing:
            await asyncio.sleep(pause_s(FEED_S, self.mailbox.idle_s, longest_s=2 * FEED_S))
            return
        server = self.frontier.server
        try:
            longest_s = pause_s(BLOCK_S, self.mailbox.idle_s, longest_s=LONGEST_BLOCK_S)
            found = await server.command("BLMOVE", key, key, "LEFT", "LEFT", longest_s)
            kind = b"list" if found is not None else await server.command("TYPE", key)
            self._is_news, self._has_waited = kind != b"none", True
            self._blocks = kind in (b"list", b"none")  # others do not end the wait
        except SkitterError as error:  # no list, or no right to do that
            self._blocks = error.retryable
            await asyncio.sleep(FEED_S)

    async def _take(self) -> Messages | None:
        """Also tries now and then without new messages, to pick up unfinished batches."""
        if self.engine.is_closing:
            return None
        now, keys = time.monotonic(), self.options.keys
        batch = None
        try:
            if now > self._look_at or await self._has_news():
                batch = await take_batch(self.frontier, keys, limit=self.options.batch_size)
                self._look_at = now + pause_s(LOOK_S, self.mailbox.idle_s, longest_s=5 * LOOK_S)
        except SkitterError as error:
            if not error.retryable:  # otherwise the server is down, which the pump reports
                self.on_problem(str(error))
                await asyncio.sleep(UNREADABLE_S)
        else:
            self.on_problem(None)
        return batch
