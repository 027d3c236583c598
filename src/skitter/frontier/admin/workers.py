"""The processes of a job: who works on it, what they say, how many there should be."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from skitter.errors import SkitterError
from skitter.frontier.wire import cut, decode, encode, side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.shard import Shard

EVENTS_LATELY = 1000
#: A worker that has been silent for this long is gone.
SILENCE_S = 15.0
#: A bound on what the server says.
MOST_WORKERS = 1000


#: Kinds of heartbeats that fetch pages.
FETCHING = frozenset({"worker", "celery", "scrapy"})


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """What a process did so far, and does now."""

    pages: int = 0
    errors: int = 0
    active: int = 0
    note: str = ""  # what holds it up, such as a database that is away


class Heartbeat(Vitals, frozen=True, kw_only=True):
    """What a worker or a loader tells every few seconds."""

    name: str
    host: str
    pid: int
    kind: str = "worker"  # worker, celery, scrapy, loader
    started_at: float
    at: float
    memory_mb: float = 0.0


async def beat(frontier: Frontier, heartbeat: Heartbeat) -> None:
    """Raises JobMissing if the job has gone: nothing of it is brought back."""
    told = msgspec.structs.replace(heartbeat, note=cut(heartbeat.note))
    await frontier.home.beat(name=told.name, message=encode(told))


async def leave(frontier: Frontier, name: str) -> None:
    await frontier.home.command("HDEL", "workers", name)


async def ask_for_spare(frontier: Frontier, name: str, wanted: int) -> int:
    """Requests of a host beyond those in flight, for a worker that is the only one; else none."""
    return await frontier.home.spare(name=name, wanted=wanted)


async def heartbeats(frontier: Frontier) -> list[Heartbeat]:
    """The last heartbeat of everybody, the silent ones too."""
    raw = await frontier.home.command("HGETALL", "workers")
    beats = []
    for value in raw.values():
        with suppress(ValueError):  # of a release that says it otherwise
            beats.append(msgspec.convert(decode(value), Heartbeat))
    return [one for one in beats if math.isfinite(one.at + one.started_at + one.memory_mb)]


async def was_heard(frontier: Frontier, name: str) -> bool:
    """Whether a worker or loader of that name ever said that it is at work; lately enough."""
    if any(one.name == name for one in await heartbeats(frontier)):
        return True
    shard = frontier.home
    events = shard.keys.key("events")
    entries = await shard.server.command("XREVRANGE", events, "+", "-", "COUNT", EVENTS_LATELY)
    return any(fields[b"worker"] == name.encode() for _, fields in entries)


async def live_workers(frontier: Frontier) -> list[Heartbeat]:
    """The last heartbeats of all that are alive. Those long silent are removed."""
    now = await frontier.server_time()
    beats = await heartbeats(frontier)
    for one in beats:
        if now - one.at > 20 * SILENCE_S:
            with suppress(SkitterError):  # its disk is full: who only looks can wait with that
                await leave(frontier, one.name)
    return living(beats, now)


def living(beats: Sequence[Heartbeat], now: float) -> list[Heartbeat]:
    """Those that were heard of lately. Pure."""
    alive = [one for one in beats if now - one.at < SILENCE_S]
    return sorted(alive, key=lambda one: (one.kind, one.host, one.pid))


async def set_wanted_workers(frontier: Frontier, number: int) -> None:
    """Supervisors follow it. Per machine; 0: as many as the work is worth."""
    await frontier.home.control([("workers", number)], create=0)


async def wanted_workers(frontier: Frontier) -> int | None:
    """How many processes the operator wants; None: not set, or not a number."""
    raw = await frontier.home.command("HGET", "control", "workers") or b""
    return min(int(raw), MOST_WORKERS) if raw.isdigit() and len(raw) < 16 else None


async def take_back(frontier: Frontier, client: str, *, seen: bool) -> int:
    """Take back every lease of a client, as if it had run out. Returns how many.

    `seen`: the caller saw it die, so that what ended it was not the end of the whole machine.

    Leases are not listed by holder: all are looked through, in small steps, as often as a worker
    dies. A lease that is missed runs out by itself.
    """
    parts = (_take_back_from(shard, client, seen) for shard in frontier.shards)
    return sum(await side_by_side(parts))


async def _take_back_from(shard: Shard, client: str, seen: bool) -> int:
    taken, cursor, prefix = 0, 0, f"{client}.".encode()
    while True:
        cursor, holders = await shard.command("HSCAN", "holder", cursor, "COUNT", 500)
        theirs = [pair for pair in holders.items() if pair[1].startswith(prefix)]
        if theirs:
            taken += await shard.reclaim(theirs, seen=int(seen))
        if not int(cursor):
            return taken
