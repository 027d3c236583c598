"""What an operator should know about a job besides its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from skitter.errors import DiskFull
from skitter.frontier.admin.workers import FETCHING, heartbeats, live_workers, living
from skitter.frontier.connection import inspect
from skitter.frontier.seen import seen_set
from skitter.frontier.wire import side_by_side
from skitter.model import State
from skitter.redact import redact
from skitter.report import duration, some

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skitter.frontier.admin.workers import Heartbeat, Machine
    from skitter.frontier.connection import ServerFacts
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats

#: Heartbeats come every 2 seconds.
LATE_S = 6.0
#: From this share of maxmemory on, calls are refused now and then.
FULL = 0.98


#: No page for so long is a crawl that is stuck, unless a host's delay explains it.
STUCK_S = 600.0
#: Items that wait longer than this wait for somebody.
UNLOADED_S = 60.0

TroubleKind = Literal["server full", "no workers", "output away", "stuck", "machine lost"]


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


def find_troubles(sight: Sight, directory: Path | None = None) -> list[Trouble]:
    """Pure."""
    found = (_full(sight, directory), _no_workers(sight), _output_away(sight), _stuck(sight))
    return [*(one for one in found if one), *_lost(sight)]


def _lost(sight: Sight) -> list[Trouble]:
    lost = [] if sight.stats.finished else [one for one in sight.machines if one.is_lost]
    return [
        Trouble(
            kind="machine lost",
            says=f"{one.host} has been silent for {duration(sight.now - one.at)}"
            + (f": {one.note}" if one.note else ""),
            command=f"skitter logs {sight.stats.job} --worker {one.host}",
        )
        for one in lost
    ]


def _full(sight: Sight, directory: Path | None) -> Trouble | None:
    notes = [disk_note(one, directory) or memory_note(one) for one in sight.nodes]
    if not any(notes):
        return None
    return Trouble(kind="server full", says=next(filter(None, notes)), command="skitter doctor")


def _is_at_work(sight: Sight) -> bool:
    return any(one.kind in FETCHING for one in living(sight.beats, sight.now))


def _no_workers(sight: Sight) -> Trouble | None:
    stats = sight.stats
    is_open = stats.state in (State.RUNNING, State.DRAINING)
    if not is_open or stats.crawled or not stats.remaining or _is_at_work(sight):
        return None
    waiting = f"{some(stats.remaining, 'URL')} {'waits' if stats.remaining == 1 else 'wait'}"
    return Trouble(
        kind="no workers",
        says=f"{waiting}, and no worker is at work",
        command=f"skitter worker SPIDER --job {stats.job}",
    )


def _output_away(sight: Sight) -> Trouble | None:
    loaders = [one for one in sight.beats if one.kind == "loader"]
    alive = living(loaders, sight.now)
    notes = [one.note for one in alive if one.note]
    if notes:
        command = f"skitter logs {sight.stats.job}"
        return Trouble(kind="output away", says=notes[0], command=command)
    waits_s = sight.now - (sight.oldest_item_at or sight.now)
    if alive or not sight.sink or waits_s < UNLOADED_S:
        return None
    waiting = f"{some(sight.stats.items, 'item')} {'waits' if sight.stats.items == 1 else 'wait'}"
    return Trouble(
        kind="output away",
        says=f"{waiting} for a loader, and none is at work",
        command=f"skitter load {sight.stats.job} --to {redact(sight.sink)}",
    )


def _stuck(sight: Sight) -> Trouble | None:
    stats = sight.stats
    busy = stats.pending - stats.shelved + stats.leased
    if stats.state is not State.RUNNING or not busy or not _is_at_work(sight):
        return None
    began = min(one.started_at for one in sight.beats if one.kind in FETCHING)
    idle_s = sight.now - max(sight.last_page_at, began)
    if idle_s < max(STUCK_S, 3 * sight.delay_s):
        return None
    return Trouble(
        kind="stuck",
        says=f"no page was done for {idle_s / 60:,.0f} min, though workers run and "
        f"{some(busy, 'URL')} can be fetched",
        command=f"skitter logs {stats.job} --level warning",
    )


async def find_warnings(frontier: Frontier, stats: Stats) -> list[str]:
    """What holds up the workers or the job, without duplicates."""
    said = {f"{one.kind}: {one.note}" for one in await live_workers(frontier) if one.note}
    beats, now = await heartbeats(frontier), await frontier.server_time()
    server = frontier.server
    nodes = await inspect(server)
    about = [loader_note(stats, beats, now, nodes), *server_notes(nodes, server.directory)]
    return [*sorted(said), *filter(None, about), *await bloom_warnings(frontier)]


def loader_note(
    stats: Stats, beats: Sequence[Heartbeat], now: float, nodes: Sequence[ServerFacts]
) -> str:
    """Warn about items that wait for a loader that went silent. Pure."""
    if not all(facts.last_write_ok for facts in nodes):
        return ""  # no heartbeat can arrive
    loaders = [one for one in beats if one.kind == "loader"]
    if not stats.items or not loaders or any(now - one.at < LATE_S for one in loaders):
        return ""
    last = max(loaders, key=lambda one: one.at)
    pages = "every page is done, and " if stats.crawled else ""
    waiting = f"{some(stats.items, 'item')} {'waits' if stats.items == 1 else 'wait'}"
    return (
        f"{pages}{waiting} for the loader (pid {last.pid}), which has not "
        f"answered for {now - last.at:,.0f} s"
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
