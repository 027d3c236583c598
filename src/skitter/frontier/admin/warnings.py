"""What an operator should know about a job besides its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.errors import DiskFull
from skitter.frontier.admin.workers import heartbeats, live_workers
from skitter.frontier.connection import inspect
from skitter.frontier.seen import seen_set
from skitter.frontier.wire import side_by_side
from skitter.report import some

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skitter.frontier.admin.workers import Heartbeat
    from skitter.frontier.connection import ServerFacts
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats

#: Heartbeats come every 2 seconds.
LATE_S = 6.0
#: From this share of maxmemory on, calls are refused now and then.
FULL = 0.98


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
