"""The feed of a RedisSpider: keys that others push messages to, read in batches."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skitter.errors import SkitterError
from skitter.frontier.batches import Messages, has_messages, take_batch
from skitter.scrapy.prefetch import pause_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.frontier.frontier import Frontier
    from skitter.scrapy.internals import ScrapyEngine
    from skitter.scrapy.mailbox import Mailbox
    from skitter.scrapy.prefetch import Prefetch

FEED_S, LOOK_S, UNREADABLE_S, ROOM_S, BLOCK_S = 0.2, 5.0, 2.0, 0.05, 2.0
PATIENT_S = 5.0


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Where messages come from; the first key has precedence."""

    keys: tuple[str, ...]
    batch_size: int = 16
    is_list: bool = True  # as far as the settings say


@dataclass(slots=True, kw_only=True)
class FeedReader:
    """Passes batches to the engine one at a time, so that it can do other work in between, and only
    as it begins their requests: what waits stays in its key, where later messages can overtake it
    and other programs can count it."""

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
            found = await server.command("BLMOVE", key, key, "LEFT", "LEFT", BLOCK_S)
            self._is_news, self._has_waited = found is not None, True
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
                self._look_at = now + LOOK_S
                if batch and self._has_waited and not self._is_news:
                    self._blocks = False  # not a list: waiting did not tell of it
        except SkitterError as error:
            if not error.retryable:  # otherwise the server is down, which the pump reports
                self.on_problem(str(error))
                await asyncio.sleep(UNREADABLE_S)
        else:
            self.on_problem(None)
        return batch
