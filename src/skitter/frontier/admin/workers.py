"""The processes of a job: their heartbeats, and how many there should be."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import ServerUnreachable, SkitterError
from skitter.frontier.wire import cut, decode, encode, side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard

EVENTS_LATELY = 1000
AT_ONCE = 500  # leases
#: A worker that has been silent for this long is gone.
SILENCE_S = 15.0
#: An upper bound, whatever the server says.
MAX_WORKERS = 1000


#: Kinds of heartbeats that fetch pages.
FETCHING = frozenset({"worker", "celery", "scrapy"})


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has done so far, and what it is doing now."""

    pages: int = 0
    errors: int = 0
    active: int = 0
    note: str = ""  # what holds it up, such as a database that is down


class Heartbeat(Vitals, frozen=True, kw_only=True):
    """What a worker or loader reports every few seconds."""

    name: str
    host: str
    pid: int
    kind: str = "worker"  # worker, celery, scrapy, loader
    started_at: float
    at: float
    memory_mb: float = 0.0
    handlers: tuple[str, ...] = ()  # of its spider


async def beat(frontier: Frontier, heartbeat: Heartbeat) -> None:
    """Store a heartbeat. Raises JobMissing for a job that is gone, and does not recreate it."""
    short = msgspec.structs.replace(heartbeat, note=cut(heartbeat.note))
    await frontier.home.beat(name=short.name, message=encode(short))


async def leave(frontier: Frontier, name: str) -> None:
    await frontier.home.command("HDEL", "workers", name)


async def ask_for_spare(frontier: Frontier, name: str, wanted: int) -> int:
    """How many requests per host a job's only worker may hold beyond those in flight; else 0."""
    return await frontier.home.spare(name=name, wanted=wanted)


async def heartbeats(frontier: Frontier) -> list[Heartbeat]:
    """The last heartbeat of every process, including those gone silent."""
    raw = await frontier.home.command("HGETALL", "workers")
    beats = []
    for value in raw.values():
        with suppress(ValueError):  # from a release with another format
            beats.append(msgspec.convert(decode(value), Heartbeat))
    return [one for one in beats if math.isfinite(one.at + one.started_at + one.memory_mb)]


async def was_heard(frontier: Frontier, name: str) -> bool:
    """Whether a worker or loader of that name has a heartbeat or a recent line in the log."""
    if any(one.name == name for one in await heartbeats(frontier)):
        return True
    shard = frontier.home
    events = shard.keys.key("events")
    entries = await shard.server.command("XREVRANGE", events, "+", "-", "COUNT", EVENTS_LATELY)
    return any(fields.get(b"worker") == name.encode() for _, fields in entries)


async def live_workers(frontier: Frontier) -> list[Heartbeat]:
    """The last heartbeats of live processes. Removes those long silent."""
    now = await frontier.server_time()
    beats = await heartbeats(frontier)
    for one in beats:
        if now - one.at > 20 * SILENCE_S:
            with suppress(SkitterError):  # a full disk must not fail a caller that only reads
                await leave(frontier, one.name)
    return living(beats, now)


def living(beats: Sequence[Heartbeat], now: float) -> list[Heartbeat]:
    """The heartbeats that are recent enough. Pure."""
    alive = [one for one in beats if now - one.at < SILENCE_S]
    return sorted(alive, key=lambda one: (one.kind, one.host, one.pid))


async def set_wanted_workers(frontier: Frontier, number: int) -> None:
    """Set how many workers supervisors run per machine; 0: as many as the work is worth."""
    await frontier.home.control([("workers", number)], create=0)


async def wanted_workers(frontier: Frontier) -> int | None:
    """How many workers the operator wants; None: not set, or not a number."""
    raw = await frontier.home.command("HGET", "control", "workers") or b""
    return min(int(raw), MAX_WORKERS) if raw.isdigit() and len(raw) < 16 else None


async def take_back(frontier: Frontier, client: str, *, seen: bool, why: str = "") -> int:
    """Take back every lease of a dead client, as if it had expired, and forget its heartbeat.
    Returns how many.

    `seen`: the caller saw it die, so it was not the whole machine that went down. `why`: what it
    died of, for the dead letters.

    Leases are not indexed by holder: each death scans them all, in small steps. A lease that the
    scan misses expires. If a shard is away, the heartbeat stays, so that somebody looks again.
    """
    held = await side_by_side(_held_by(client, shard) for shard in frontier.shards)
    parts = [(shard, some) for shard, some in zip(frontier.shards, held, strict=True) if some]
    known = [some for _, some in parts if some is not None]
    how: Any = {"seen": int(seen), "alone": int(sum(map(len, known)) == 1), "why": cut(why)}
    taken = sum(
        await side_by_side(
            shard.reclaim(some[at : at + AT_ONCE], **how)
            for shard, some in parts
            for at in range(0, len(some), AT_ONCE)
        )
    )
    if None not in held:
        await leave(frontier, client)
    return taken


async def _held_by(client: str, shard: Shard) -> list[tuple[bytes, bytes]] | None:
    """Leases as `fingerprint, token`. None: the shard is away."""
    found, cursor, prefix = dict[bytes, bytes](), 0, f"{client}.".encode()
    while True:
        try:
            cursor, holders = await shard.command("HSCAN", "holder", cursor, "COUNT", AT_ONCE)
        except ServerUnreachable:
            return None
        found |= {fp: token for fp, token in holders.items() if token.startswith(prefix)}
        if not int(cursor):
            return list(found.items())
