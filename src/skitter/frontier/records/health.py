"""What an operator should know about a job besides its numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from skitter.errors import DiskFull, UsageError
from skitter.extras import RELEASE
from skitter.frontier.seen import seen_set
from skitter.frontier.totals import newer_options, read_control
from skitter.frontier.transport.connection import inspect
from skitter.frontier.transport.messages import decode, encode, side_by_side
from skitter.frontier.workers import FETCHING, heartbeats, live_workers, living
from skitter.model import State
from skitter.observe.quality import Finding, History, Window, judge
from skitter.observe.report import duration, some
from skitter.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import ServerFacts
    from skitter.frontier.workers import Heartbeat, Machine
    from skitter.model import Stats
    from skitter.settings import QualityOptions


#: Limits per job: handlers, and columns (a field and a type) per handler. With observe.lua's
#: WINDOWS and 5 bytes per number, that is at most 850 KB; a handler with 10 fields takes 2 KB.
MAX_HANDLERS = 20
MAX_COLUMNS = 100
LONGEST_NAME = 60


class Observed(NamedTuple):
    """What one worker recently saw of one handler: the server keeps it in windows that widen with
    age."""

    handler: str
    pages: int
    items: int
    blocked: int
    columns: dict[str, int]  # values by column


class _Stored(msgspec.Struct):
    """What observe.lua writes. A row: ms, pages, items, blocked, then a number per column."""

    columns: list[str]
    rows: list[list[int]]


def column(name: str, kind: str) -> str:
    return f"{kind[:LONGEST_NAME]}:{name[:LONGEST_NAME]}"


async def observe(frontier: Frontier, observed: Iterable[Observed]) -> None:
    rows = [
        (
            one.handler[:LONGEST_NAME],
            encode([one.pages, one.items, one.blocked]),
            encode(list(one.columns)),
            encode(list(one.columns.values())),
        )
        for one in observed
    ]
    await frontier.home.observe(rows, handlers=MAX_HANDLERS, columns=MAX_COLUMNS)


async def read_quality(frontier: Frontier) -> list[History]:
    """One history per handler, sorted by name."""
    raw = await frontier.home.command("HGETALL", "quality")
    histories = []
    for handler, packed in sorted(raw.items()):
        try:
            stored = msgspec.convert(decode(packed), _Stored)
        except ValueError:  # damaged, or of another release
            continue
        windows = [_window(row, stored.columns) for row in stored.rows if len(row) >= 4]
        histories.append(History(handler.decode("utf-8", "replace"), windows))
    return histories


async def keep_thresholds(frontier: Frontier, options: QualityOptions) -> None:
    """Store the thresholds for all who judge the job: the spider may have set some."""
    await frontier.home.command("SET", "thresholds", encode(asdict(options)))


async def thresholds(frontier: Frontier) -> QualityOptions:
    """The thresholds of the last run; before the first, those configured here."""
    from skitter.settings.tables import QualityOptions

    kept = await frontier.home.command("GET", "thresholds")
    try:
        return msgspec.convert(decode(kept), QualityOptions) if kept else _configured(frontier)
    except (ValueError, UsageError):  # damaged, or of another release
        return _configured(frontier)


def _configured(frontier: Frontier) -> QualityOptions:
    from skitter.settings.sources import resolve  # declares every option there is

    return resolve(job=frontier.job).quality


async def find_bad(
    frontier: Frontier, options: QualityOptions | None = None, *, since: float = 0.0
) -> list[str]:
    """Describe what got worse. `since` skips earlier pages, by the server's clock."""
    return [str(finding) for finding in await find_worse(frontier, options, since=since)]


async def find_worse(
    frontier: Frontier, options: QualityOptions | None = None, *, since: float = 0.0
) -> list[Finding]:
    histories = await read_quality(frontier)
    if not histories:
        return []
    return judge(histories, options or await thresholds(frontier), since=since)


def _window(row: Sequence[int], columns: Sequence[str]) -> Window:
    at, pages, items, blocked, *counts = row
    filled = Counter({_pair(one): n for one, n in zip(columns, counts, strict=False) if n > 0})
    return Window(at / 1000, pages, items, blocked, filled)


def _pair(column: str) -> tuple[str, str]:
    kind, _, name = column.partition(":")
    return name, kind


#: Counts per job. Selectors may be made from data: they must leave room for the handlers.
KEEP: Final = 1000
KEEP_SELECTORS: Final = 500
_OF_SELECTORS: Final = ("tried ", "found ")


async def count_handled(frontier: Frontier, counts: Mapping[str, int]) -> None:
    """Add to the counts of the fleet, each named by what, handler, and perhaps a selector: "pages
    book", "found listing .next a"."""
    selectors = [one for one in counts.items() if one[0].startswith(_OF_SELECTORS)]
    handlers = [one for one in counts.items() if not one[0].startswith(_OF_SELECTORS)]
    for rows, keep in ((handlers, KEEP), (selectors, KEEP_SELECTORS)):
        if rows:
            await frontier.home.handled(rows, keep=keep)


async def read_handled(frontier: Frontier) -> Counter[str]:
    """All counts since the job was created."""
    counts = await frontier.home.read_hash("handled")
    return Counter({name: int(by) for name, by in counts.items() if by.isdecimal()})


#: Heartbeats come every 2 seconds.
LATE_S = 6.0
#: From this share of maxmemory on, calls are refused now and then.
FULL = 0.98


#: No page for so long is a crawl that is stuck, unless a host's delay explains it.
STUCK_S = 600.0
#: Items that wait longer than this wait for somebody.
UNLOADED_S = 60.0

TroubleKind = Literal[
    "server full", "no workers", "output away", "stuck", "no handler", "machine lost"
]


#: By which a note of the same is known.
OF_NOTES: Final[dict[TroubleKind, str]] = {
    "output away": "for a loader, and none is running",
    "no handler": "no worker has handler",
}


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job needs somebody, and the command that helps. The worst comes first."""

    kind: TroubleKind
    says: str
    command: str = ""


class Sight(NamedTuple):
    """What `find_troubles` judges."""

    stats: Stats
    beats: Sequence[Heartbeat]  # of all processes, also of silent ones
    nodes: Sequence[ServerFacts]
    now: float
    sink: str = ""  # where the items go, if that is known
    last_page_at: float = 0.0  # 0: never
    oldest_item_at: float | None = None
    delay_s: float = 0.0  # of the slowest host
    machines: Sequence[Machine] = ()
    unhandled: Sequence[str] = ()  # handlers that pages wait for, and no worker has
    waits: str = ""  # what all of its workers wait for, as they are to
    spider: str = ""  # of Scrapy, whose nodes are its workers


def find_troubles(sight: Sight, directory: Path | None = None) -> list[Trouble]:
    """Pure."""
    found = (_full(sight, directory), _no_workers(sight), _output_away(sight), _stuck(sight))
    return [*(one for one in found if one), *_no_handler(sight), *_lost(sight)]


def _no_handler(sight: Sight) -> list[Trouble]:
    stats = sight.stats
    if not stats.unhandled:
        return []
    names = ", ".join(map(repr, sight.unhandled[:3])) or "of an earlier spider"
    waiting = f"{some(stats.unhandled, 'URL')} {'waits' if stats.unhandled == 1 else 'wait'}"
    return [
        Trouble(
            kind="no handler",
            says=f"{waiting}: {OF_NOTES['no handler']} {names}",
            command=f"skitter worker SPIDER --job {stats.job}",
        )
    ]


def _lost(sight: Sight) -> list[Trouble]:
    lost = (
        [] if sight.stats.finished else [machine for machine in sight.machines if machine.is_lost]
    )
    return [
        Trouble(
            kind="machine lost",
            says=f"{machine.host} has been silent for {duration(sight.now - machine.at)}"
            + (f": {machine.note}" if machine.note else ""),
            command=f"skitter logs {sight.stats.job} --worker {machine.host}",
        )
        for machine in lost
    ]


def _full(sight: Sight, directory: Path | None) -> Trouble | None:
    notes = [disk_note(node, directory) or memory_note(node) for node in sight.nodes]
    if not any(notes):
        return None
    return Trouble(kind="server full", says=next(filter(None, notes)), command="skitter doctor")


def _is_at_work(sight: Sight) -> bool:
    return any(beat.kind in FETCHING for beat in living(sight.beats, sight.now))


def _no_workers(sight: Sight) -> Trouble | None:
    stats = sight.stats
    is_open = stats.state in (State.RUNNING, State.DRAINING)
    if not is_open or stats.crawled or not stats.remaining or _is_at_work(sight):
        return None
    waiting = f"{some(stats.remaining, 'URL')} {'waits' if stats.remaining == 1 else 'wait'}"
    return Trouble(
        kind="no workers",
        says=f"{waiting}, and no worker is running",
        command=f"scrapy crawl {sight.spider}"
        if sight.spider
        else f"skitter worker SPIDER --job {stats.job}",
    )


def _output_away(sight: Sight) -> Trouble | None:
    loaders = [beat for beat in sight.beats if beat.kind == "loader"]
    alive = living(loaders, sight.now)
    notes = [beat.note for beat in alive if beat.note]
    if notes:
        command = f"skitter logs {sight.stats.job}"
        return Trouble(kind="output away", says=notes[0], command=command)
    waits_s = sight.now - (sight.oldest_item_at or sight.now)
    if alive or not sight.sink or waits_s < UNLOADED_S:
        return None
    waiting = f"{some(sight.stats.items, 'item')} {'waits' if sight.stats.items == 1 else 'wait'}"
    return Trouble(
        kind="output away",
        says=f"{waiting} {OF_NOTES['output away']}",
        command=f"skitter load {sight.stats.job} --to {redact(sight.sink)}",
    )


def _stuck(sight: Sight) -> Trouble | None:
    stats = sight.stats
    busy = stats.pending - stats.shelved + stats.leased
    if stats.state is not State.RUNNING or sight.waits or not busy or not _is_at_work(sight):
        return None
    began = min(beat.started_at for beat in sight.beats if beat.kind in FETCHING)
    idle_s = sight.now - max(sight.last_page_at, began)
    if idle_s < max(STUCK_S, 3 * sight.delay_s):
        return None
    return Trouble(
        kind="stuck",
        says=f"no page was done for {duration(idle_s)}, though workers run and "
        f"{some(busy, 'URL')} can be fetched",
        command=f"skitter logs {stats.job} --level warning",
    )


async def find_warnings(
    frontier: Frontier, stats: Stats, directory: Path | None = None
) -> list[str]:
    """What holds up the workers or the job, without duplicates."""
    said = {
        f"{worker.kind}: {worker.note}" for worker in await live_workers(frontier) if worker.note
    }
    beats, now = await heartbeats(frontier), await frontier.server_time()
    server = frontier.server
    nodes = await inspect(server)
    about = [loader_note(stats, beats, now, nodes), *server_notes(nodes, directory)]
    about.append(day_note(frontier, stats))
    about.append(newer_note(newer_options(await read_control(frontier.home))))
    return [*sorted(said), *filter(None, about), *await bloom_warnings(frontier)]


def loader_note(
    stats: Stats, beats: Sequence[Heartbeat], now: float, nodes: Sequence[ServerFacts]
) -> str:
    """Warn about items that wait for a loader that went silent. Pure."""
    if not all(facts.last_write_ok for facts in nodes):
        return ""  # no heartbeat can arrive
    loaders = [beat for beat in beats if beat.kind == "loader"]
    if not stats.items or not loaders or any(now - loader.at < LATE_S for loader in loaders):
        return ""
    last = max(loaders, key=lambda loader: loader.at)
    pages = "every page is done, and " if stats.crawled else ""
    waiting = f"{some(stats.items, 'item')} {'waits' if stats.items == 1 else 'wait'}"
    who, silent = f"that of {last.host} (pid {last.pid})", duration(now - last.at)
    return f"{pages}{waiting} {OF_NOTES['output away']}: {who} has been silent for {silent}"


def day_note(frontier: Frontier, stats: Stats) -> str:
    """Say that a day has had its pages."""
    limit, shards = frontier.options.limits.max_pages_per_day, len(frontier.shards)
    # Each shard has an even part, as lua/lib/daily.lua has it.
    if limit is None or not stats.remaining or stats.today < max(1, limit // shards) * shards:
        return ""
    pages = some(stats.today, "page")
    return f"today's {pages} are done (max_pages_per_day={limit:,}): it goes on at 00:00 UTC"


def newer_note(names: Sequence[str]) -> str:
    """Warn about options that we do not obey. Pure."""
    if not names:
        return ""
    what = f"option{'s' * (len(names) > 1)} {', '.join(names)}"
    return (
        f"a newer release of Skitter set the {what}, which this one ({RELEASE}) does not know: "
        "its workers do not obey, and change nothing about it"
    )


def server_notes(nodes: Sequence[ServerFacts], directory: Path | None) -> list[str]:
    """Warn about servers or cluster nodes that lose keys, or whose disk or memory is full. Pure."""
    found = {disk_note(facts, directory) for facts in nodes}
    found |= {note for facts in nodes for note in (memory_note(facts), eviction_note(facts))}
    return sorted(filter(None, found))


def eviction_note(facts: ServerFacts) -> str:
    """Nobody connects to such a server, but it may become one while a crawl runs."""
    if facts.eviction == "noeviction":
        return ""
    return (
        f"the server may now evict keys (maxmemory-policy {facts.eviction}), and so lose URLs: run "
        "`CONFIG SET maxmemory-policy noeviction` on it, then `skitter audit`"
    )


def disk_note(facts: ServerFacts, directory: Path | None) -> str:
    if facts.last_write_ok:
        return ""
    if directory:
        return f"{DiskFull(directory)} Waiting."
    return "the server cannot write to its disk: free some space there. Waiting."


def memory_note(facts: ServerFacts) -> str:
    used, limit = facts.memory_bytes, facts.max_memory_bytes
    if not limit or used < FULL * limit:
        return ""
    return (
        f"the server is full ({used / 2**20:,.0f} of {limit / 2**20:,.0f} MB) and refuses new URLs "
        "and results: load the waiting items, or raise its limit (SKITTER_MAX_MEMORY_MB before its "
        "next start, or maxmemory)"
    )


async def bloom_warnings(frontier: Frontier) -> list[str]:
    """Whether the Bloom filter of any shard is past its capacity; the fullest is reported."""
    parts = await side_by_side(shard.counts() for shard in frontier.shards)
    seen = max(counts.get("seen", 0) for _, counts in parts)
    return [f"the Bloom filter {says}" for says in seen_set(frontier.layout).problems(seen)]
