"""Live messages and charts, read once for all who look."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from skitter.crawl.watch import without_processes
from skitter.errors import SkitterError
from skitter.frontier.jobs import open_job
from skitter.frontier.records.metrics import History, read_history
from skitter.frontier.workers import LOG_PAGE, Event, read_log
from skitter.server.problems import public
from skitter.server.stored import News

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from skitter.crawl.watch import Overview, Watcher
    from skitter.frontier.frontier import Frontier
    from skitter.server.presence import Presence


EVERY_S = 1.0
#: Reading takes at most 1/SHARE of the time.
SHARE = 5
#: The longest silence in a stream: after that, clients know that the server hangs. It also keeps
#: proxies from closing the connection.
TICK_S = 5.0
RECENT_LINES, RECENT_S = 100, 3600.0
#: Seconds a client may lag behind; a slower one is disconnected.
BEHIND = 30
encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Hub:
    """The channels that have listeners: however many, each job is read and each message encoded
    once."""

    watcher: Watcher
    presence: Presence
    directory: Path | None = None  # of this machine's stores
    channels: dict[str, Channel] = field(default_factory=dict)

    @contextmanager
    def listening(self, job: str, only: tuple[str, ...] = ()) -> Iterator[tuple[Channel, Listener]]:
        """The first listener starts the job's reader, and the last one stops it. `only`: patterns
        of the jobs in the list of all."""
        name = job or "\n".join(only)  # which no job has in its name
        if name not in self.channels:
            news = News(self.directory)
            self.channels[name] = Channel(self.watcher, self.presence, job, only, news)
        channel, listener = self.channels[name], Listener()
        channel.listeners.add(listener)
        try:
            yield channel, listener
        finally:
            channel.listeners.discard(listener)
            if not channel.listeners and self.channels.get(name) is channel:
                self.channels.pop(name).reader.cancel()


@dataclass(slots=True, eq=False)
class Listener:
    """One client and its unsent messages. None ends the stream."""

    waiting: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(BEHIND))
    is_slow: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, messages: bytes | None) -> None:
        try:
            self.waiting.put_nowait(messages)
        except asyncio.QueueFull:
            self.is_slow.set()

    def forget(self) -> None:
        while not self.waiting.empty():
            self.waiting.get_nowait()


@dataclass(slots=True, eq=False)
class Channel:
    """The messages about one job, or about all jobs."""

    watcher: Watcher
    presence: Presence
    job: str
    only: tuple[str, ...] = ()
    news: News = field(default_factory=News)
    listeners: set[Listener] = field(default_factory=set)
    latest: bytes = b""  # the last overview
    life: int = 0
    recent: deque[bytes] = field(default_factory=lambda: deque(maxlen=RECENT_LINES))
    last: str = ""  # id of the last log line sent
    away: bytes = b""  # the "away" message, while Redis is away
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    reader: asyncio.Task[None] = field(init=False)
    _sent_at: float = field(default_factory=time.monotonic)
    _shown: object = None

    def __post_init__(self) -> None:
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Read every second until nobody listens or the job is gone. (Cancelling alone is not
        enough: see `cancel_all`.)"""
        while self.listeners:
            began = time.monotonic()
            try:
                events = await self.presence.through(self._look())
            except SkitterError as error:
                if not error.retryable:
                    self._broadcast(message("gone", {"job": self.job, "detail": public(error)}))
                    return self._close()
                events = self._went_away(public(error))
            else:
                if self.away:
                    self.away, events = b"", message("back", {}) + events
            self.is_open.set()  # clients must learn that Redis is away, too
            self._broadcast(events)
            await self.presence.pause(max(EVERY_S, SHARE * (time.monotonic() - began)))

    def _shows(self, look: Overview) -> bool:
        return not self.only or any(fnmatchcase(look.job, one) for one in self.only)

    def _broadcast(self, events: bytes) -> None:
        now = time.monotonic()
        if not events and now - self._sent_at < TICK_S:
            return
        self._sent_at = now
        for listener in self.listeners:
            listener.send(events or TICK)

    def _close(self) -> None:
        for listener in self.listeners:
            listener.send(None)

    def _went_away(self, detail: str) -> bytes:
        if self.away:
            return b""
        self.away = message("away", {"detail": detail})
        return self.away

    async def _look(self) -> bytes:
        if not self.job:
            looks = await self.watcher.look_at_all(lambda _: None)
            return self._news("jobs", [without_processes(job) for job in looks if self._shows(job)])
        frontier = await open_job(self.watcher.server, self.job)
        look = await self.watcher.look_at(frontier)
        if look.life != self.life:
            self.life = look.life
            self.recent.clear()  # of an earlier job of this name
            self.news = News(self.news.directory)
        changes = [message("change", one) for one in await self.news.read(frontier, look.changes)]
        said = self._news("overview", look) + await self._read_log(frontier, look.at)
        return said + b"".join(changes)

    def _news(self, event: str, looks: Overview | list[Overview]) -> bytes:
        """The overview as a message; empty if nothing but the time has changed."""
        rows = looks if isinstance(looks, list) else [looks]
        shown = [msgspec.structs.replace(row, at=0.0, elapsed_s=None) for row in rows]
        if shown == self._shown:
            return b""
        self._shown = shown
        self.latest = message(event, {"rows": looks} if isinstance(looks, list) else looks)
        return self.latest

    async def _read_log(self, frontier: Frontier, now: float) -> bytes:
        is_first, found = not self.last, list[bytes]()
        self.last = self.last or f"{int((now - RECENT_S) * 1000)}-0"
        while page := await read_log(frontier, self.last, LOG_PAGE):
            found += map(line, page)
            self.last = page[-1].id
        self.recent.extend(found)
        return b"" if is_first else b"".join(found)  # new clients get the recent lines

    async def missed(self, listener: Listener, after: str) -> AsyncIterator[bytes]:
        """The state now, then the lines since the client's last one, or else the recent lines."""
        await self.is_open.wait()
        listener.forget()  # the messages below include it
        upto = self.last
        yield self.latest + (self.away or message("back", {}))
        if not self.job or not is_id(after):
            yield b"".join(self.recent)
            return
        frontier = await open_job(self.watcher.server, self.job)
        while page := await read_log(frontier, after, LOG_PAGE):
            yield b"".join(line(event) for event in page if place(event.id) <= place(upto))
            after = page[-1].id
            if place(after) >= place(upto):
                return


def message(event: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), encode(data))


TICK = message("tick", {})


def line(event: Event) -> bytes:
    return b"id: %b\n%b" % (event.id.encode(), message("log", event))


def is_id(text: str) -> bool:
    return bool(re.fullmatch(r"\d{1,18}-\d{1,18}", text, re.ASCII))


def place(identity: str) -> tuple[int, ...]:
    return tuple(map(int, identity.split("-")))


LONGEST_S = 5.0


class Chart(NamedTuple):
    """Which one: equal ones share what was read."""

    job: str
    names: tuple[str, ...]
    since_s: float
    points: int


@dataclass(slots=True)
class Charts:
    """Keeps each for a tenth of its step: the newest point changes, and everybody sees it soon."""

    clock: Callable[[], float] = time.monotonic
    _reading: dict[Chart, asyncio.Task[History]] = field(default_factory=dict)
    _read: dict[Chart, tuple[float, History]] = field(default_factory=dict)  # until when

    async def read(self, frontier: Frontier, chart: Chart) -> History:
        until, history = self._read.get(chart, (0.0, None))
        if history is not None and self.clock() < until:
            return history
        task = self._reading.get(chart)
        if task is None:
            task = self._reading[chart] = asyncio.create_task(self._renew(frontier, chart))
            task.add_done_callback(lambda _: self._reading.pop(chart))
        return await asyncio.shield(task)  # one who leaves does not end it for the others

    async def _renew(self, frontier: Frontier, chart: Chart) -> History:
        history = await read_history(
            frontier, list(chart.names), since_s=chart.since_s, points=chart.points
        )
        now = self.clock()
        kept = {one: found for one, found in self._read.items() if now < found[0]}
        self._read = kept | {chart: (now + min(LONGEST_S, history.step_s / 10), history)}
        return history
