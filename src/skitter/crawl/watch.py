"""What is shown of a job. `top`, `status`, the display of a running crawl and the HTTP server use a
`Watcher`, so that they all show the same."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from skitter.frontier.frontier import Frontier
from skitter.frontier.items import oldest_item_at
from skitter.frontier.jobs import for_each_job, open_job
from skitter.frontier.quotas import QuotaUse, day_notes, list_tenants, uses_of
from skitter.frontier.records.drivers import spider_of
from skitter.frontier.records.health import (
    LATE_S,
    Sight,
    Trouble,
    day_note,
    find_bad,
    find_troubles,
    find_warnings,
)
from skitter.frontier.records.metrics import read_counts
from skitter.frontier.records.outputs import Backlog, backlogs, find_sink
from skitter.frontier.sites.hosts import Bound, Survey, eta_s, survey_hosts
from skitter.frontier.sites.learned import unhandled
from skitter.frontier.transport.connection import Server, ServerFacts, inspect
from skitter.frontier.transport.sync import turnstile
from skitter.frontier.workers import (
    FETCHING,
    LOG_PAGE,
    Event,
    Heartbeat,
    Machine,
    heartbeats,
    living,
    machines_of,
    read_log,
    read_wish_and_life,
    supervisors,
)
from skitter.model import State, Stats
from skitter.observe.metrics import ARCHIVED

if TYPE_CHECKING:
    from pathlib import Path

#: Rates are averages: a polite crawl fetches a page only now and then.
WINDOW_S, LONGEST_WINDOW_S = 10.0, 60.0
#: An earlier estimate would be a guess.
WARM_UP_S = 5.0
#: Scanning the hosts is slow when there are many.
CLOSELY_EVERY_S = 3.0
LOG_SINCE_S = 3600.0


class Overview(Stats, frozen=True, kw_only=True, rename={"state": "wanted", "status": "state"}):
    """One job at one moment of the server's clock. In JSON, `state` is what users are shown."""

    state: State
    status: str
    at: float
    life: int = 0  # another number if the job was purged and made again
    remaining: int  # requests still to be fetched, as far as max_pages allows
    notes: Sequence[str] = ()  # warnings
    troubles: Sequence[Trouble] = ()  # why the job needs somebody, the worst first
    pages_per_s: float = 0.0
    items_per_s: float = 0.0
    found_per_s: float = 0.0  # new URLs
    eta_s: float | None = None  # for what is known; what is found meanwhile adds to it
    bound: Bound | None = None  # the host that will finish last, if its delay matters
    #: The longest wait among the requests that are next at their host, of the first 5,000 hosts of
    #: each shard.
    oldest_pending_s: float | None = None
    processes: dict[str, int] = msgspec.field(
        default_factory=dict
    )  # how many of each kind are running
    silent_workers: int = 0  # stopped reporting without saying goodbye
    wanted_workers: int | None = None  # in all; 0: automatic, None: not set
    wanted_per_machine: bool = False  # that number is for each machine
    outputs: Sequence[Backlog] = ()  # if there are several, and what waits for each
    workers: Sequence[Heartbeat] = ()
    silent: Sequence[Heartbeat] = ()  # the last words of those that fell silent
    machines: Sequence[Machine] = ()
    elapsed_s: float | None = None  # since the first of the running ones started
    bytes: int | None = None
    proxy_money: float | None = None
    browser_s: float | None = None
    quotas: Sequence[QuotaUse] = ()  # those that it keeps with others
    archived: int | None = None  # pages that the archive has kept
    archived_bytes: int | None = None
    unarchived: int | None = None  # pages that it could not keep
    log: Sequence[Event] = ()  # the last lines, oldest first

    @property
    def fetching(self) -> int:
        """How many workers fetch pages."""
        return sum(worker.kind in FETCHING for worker in self.workers)


def without_processes(look: Overview) -> Overview:
    """For lists of jobs."""
    return msgspec.structs.replace(look, workers=(), silent=(), machines=(), quotas=())


FindBad = Callable[[Frontier], Awaitable[list[str]]]


async def _configured_quality(frontier: Frontier) -> list[str]:
    return await find_bad(frontier)


class Watcher(msgspec.Struct):
    """Observes jobs repeatedly. Remembers what rates need, and what is slow to find."""

    server: Server
    log_lines: int = 0  # how many to include in each overview
    names_folders: bool = True  # of an embedded server; not to those who only have a token
    find_bad: FindBad = _configured_quality
    #: False: delay the slow queries, because workers have only just started to report.
    closely_at_once: bool = True
    _known: dict[str, _Known] = msgspec.field(default_factory=dict)
    _uses: Uses = msgspec.field(default_factory=lambda: Uses())

    @property
    def _folder(self) -> Path | None:
        return self.server.directory if self.names_folders else None

    async def look(self, job: str) -> Overview:
        return await self.look_at(await open_job(self.server, job))

    async def look_at_all(self, on_damaged: Callable[[str], None]) -> list[Overview]:
        looks = await for_each_job(
            self.server, self.look, lambda job, error: on_damaged(f"{job}: {error}")
        )
        # Another look may have ended meanwhile and forgotten a job that this one has seen.
        self._known = {job: known for job, known in self._known.items() if job in looks}
        return list(looks.values())

    async def look_at(self, frontier: Frontier, stats: Stats | None = None) -> Overview:
        """`stats`: if the caller has just read them."""
        stats = stats or await frontier.stats()
        now, beats = await frontier.server_time(), await heartbeats(frontier)
        wish, life = await read_wish_and_life(frontier)
        known = self._known.get(frontier.job)
        if known is None or known.life != life:
            first = _Known(-math.inf if self.closely_at_once else now, life)
            known = self._known[frontier.job] = first
        if now - known.closely_at > CLOSELY_EVERY_S:
            known.closely_at = now
            await self._look_closely(known, frontier, stats)
        if self.log_lines:
            await known.read_log(frontier, now, self.log_lines)
        workers = living(beats, now)
        began = min(
            (worker.started_at for worker in workers if worker.kind in FETCHING), default=None
        )
        elapsed_s = None if began is None else max(0.0, now - began)
        pages_per_s, items_per_s = known.rates.update(stats, now, workers)
        machines = machines_of(beats, await supervisors(frontier), now)
        waits = day_note(frontier, stats) or "; ".join(day_notes(known.quotas))
        sight = known.sight(stats, beats, machines, now)._replace(waits=waits)
        left = remaining(stats, frontier.options.limits.max_pages)
        moving = stats.state in (State.RUNNING, State.DRAINING) and not stats.finished and left
        estimated = moving and elapsed_s is not None and elapsed_s >= WARM_UP_S
        return Overview(
            **msgspec.structs.asdict(stats),
            status=stats.status,
            at=now,
            life=life,
            remaining=left,
            notes=known.notes,
            troubles=find_troubles(sight, self._folder),
            pages_per_s=pages_per_s,
            items_per_s=items_per_s,
            found_per_s=known.rates.found_per_s,
            eta_s=eta_s(left, pages_per_s, known.hosts.bound) if estimated else None,
            bound=known.hosts.bound,
            oldest_pending_s=known.oldest_s(now) if stats.pending else None,
            **known.costs,
            outputs=known.outputs,
            quotas=known.quotas,
            processes=dict(Counter(worker.kind for worker in workers)),
            silent_workers=sum(now - beat.at > LATE_S for beat in beats),
            silent=[beat for beat in beats if now - beat.at > LATE_S],
            machines=machines,
            wanted_workers=wish.workers if wish else None,
            wanted_per_machine=bool(wish and wish.per_machine),
            workers=workers,
            elapsed_s=elapsed_s,
            log=list(known.log),
        )

    async def _look_closely(self, known: _Known, frontier: Frontier, stats: Stats) -> None:
        """What changes slowly, or takes more than one call to read."""
        known.hosts = Survey() if stats.finished else await survey_hosts(frontier)
        known.spent = await read_counts(frontier)
        known.notes = await find_warnings(frontier, stats, self._folder)
        known.notes += await self.find_bad(frontier)
        known.nodes = await inspect(frontier.server)
        known.spider = await spider_of(frontier) if frontier.layout.fingerprinter else ""
        known.unhandled = [*await unhandled(frontier)] if stats.unhandled else []
        known.sink = await find_sink(frontier) if stats.items else ""
        known.oldest_item_at = await oldest_item_at(frontier) if stats.items else None
        known.outputs = await backlogs(frontier)
        known.quotas = await self._uses.of(frontier)
        known.notes += [] if stats.finished else day_notes(known.quotas)


def remaining(stats: Stats, max_pages: int | None) -> int:
    known = stats.remaining
    return known if max_pages is None else max(0, min(known, max_pages - stats.done))


class Uses(msgspec.Struct):
    """What tenants use of their quotas, counted once for all jobs that are looked at."""

    read_at: float = -math.inf
    rows: list[QuotaUse] = msgspec.field(default_factory=list)
    turn: Any = None

    async def of(self, frontier: Frontier) -> list[QuotaUse]:
        self.turn = self.turn or turnstile()
        async with self.turn:
            if time.monotonic() - self.read_at > CLOSELY_EVERY_S:
                self.rows = await uses_of(frontier.server, await list_tenants(frontier.server))
                self.read_at = time.monotonic()
        return [use for use in self.rows if use.counts(frontier.job)]


class _Count(NamedTuple):
    at: float
    pages: int
    items: int
    seen: int = 0


class Rates(msgspec.Struct):
    """Pages and items per second, over a window that ends now."""

    found_per_s: float = 0.0  # new URLs, over the same window
    _counts: deque[_Count] = msgspec.field(default_factory=deque)

    def update(self, stats: Stats, now: float, workers: Sequence[Heartbeat]) -> tuple[float, float]:
        """Without an earlier count, use the workers' pages since they started, and the overall
        number of items per page."""
        last = _Count(now, stats.done, stats.items + stats.stored + stats.rejected, stats.seen)
        counts = self._counts
        if counts and (last.pages < counts[-1].pages or counts[-1].at < now - LONGEST_WINDOW_S):
            counts.clear()  # the job was recreated, or this watcher slept
        counts.append(last)
        while len(counts) > 2 and counts[1].at <= now - WINDOW_S:
            counts.popleft()
        first, passed_s = counts[0], now - counts[0].at
        self.found_per_s = max(0.0, (last.seen - first.seen) / passed_s) if passed_s >= 0.9 else 0.0
        if passed_s >= 0.9:
            pages_per_s = (last.pages - first.pages) / passed_s
            return pages_per_s, max(0.0, (last.items - first.items) / passed_s)
        if stats.finished:
            return 0.0, 0.0
        fetching = (worker for worker in workers if worker.kind in FETCHING)
        pages_per_s = sum(beat.pages / max(1.0, beat.at - beat.started_at) for beat in fetching)
        return pages_per_s, pages_per_s * last.items / last.pages if last.pages else 0.0


class _Known(msgspec.Struct):
    """What a watcher remembers about a job."""

    closely_at: float
    life: int
    hosts: Survey = msgspec.field(default_factory=Survey)
    spent: dict[str, int] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)
    nodes: list[ServerFacts] = msgspec.field(default_factory=list)
    sink: str = ""
    spider: str = ""
    outputs: list[Backlog] = msgspec.field(default_factory=list)
    unhandled: list[str] = msgspec.field(default_factory=list)
    quotas: list[QuotaUse] = msgspec.field(default_factory=list)
    oldest_item_at: float | None = None
    rates: Rates = msgspec.field(default_factory=Rates)
    log: deque[Event] = msgspec.field(default_factory=deque)
    _last: str = ""

    def oldest_s(self, now: float) -> float | None:
        at = self.hosts.oldest_at
        return None if at is None else max(0.0, now - at)

    def sight(
        self, stats: Stats, beats: Sequence[Heartbeat], machines: Sequence[Machine], now: float
    ) -> Sight:
        return Sight(
            stats,
            beats,
            self.nodes,
            now,
            sink=self.sink,
            last_page_at=self.spent.get("page_s", 0),
            oldest_item_at=self.oldest_item_at if stats.items else None,
            delay_s=self.hosts.bound.delay_s if self.hosts.bound else 0.0,
            machines=machines,
            unhandled=self.unhandled,
            spider=self.spider,
        )

    @property
    def costs(self) -> dict[str, Any]:
        """Empty until the first worker reports."""
        if not self.spent:
            return {}
        return {
            "bytes": self.spent.get("bytes", 0),
            "proxy_money": self.spent.get("proxy_money_micro", 0) / 1e6,
            "browser_s": self.spent.get("browser_ms", 0) / 1e3,
            **{name: self.spent.get(name, 0) for name in ARCHIVED},
        }

    async def read_log(self, frontier: Frontier, now: float, limit: int) -> None:
        """Read only what is new."""
        self._last = self._last or f"{int((now - LOG_SINCE_S) * 1000)}-0"
        while page := await read_log(frontier, self._last, LOG_PAGE):
            self.log = deque([*self.log, *page], maxlen=limit)
            self._last = page[-1].id
