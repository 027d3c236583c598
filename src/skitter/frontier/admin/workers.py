"""The crew of a job: who works on it, what they say, how many there should be."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from skitter.frontier.wire import cut, decode, encode

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

EVENTS_KEPT = 10_000
END_OF_TIME_S = 253_402_300_799.0  # the last second of the year 9999: an id may say any number
EVENTS_LATELY = 1000
#: A worker that has not been heard of for so long is gone.
SILENCE_S = 15.0
#: More than anybody wants: whatever the server says.
MOST_WORKERS = 1000


#: Kinds of heartbeats that fetch pages.
FETCHING = frozenset({"worker", "celery", "scrapy"})


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """What a process did so far, and does now."""

    pages: int = 0
    errors: int = 0
    active: int = 0
    note: str = ""  # what stands in its way, e.g. a database that is away


class Heartbeat(Vitals, frozen=True, kw_only=True):
    """What a worker or a loader tells every few seconds."""

    name: str
    host: str
    pid: int
    kind: str = "worker"  # worker, celery, scrapy, loader
    started_at: float
    at: float
    memory_mb: float = 0.0


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the cluster's log."""

    id: str
    at: float
    level: str
    worker: str
    text: str


async def beat(frontier: Frontier, heartbeat: Heartbeat) -> None:
    """Raises JobMissing if the job has gone: nothing of it is brought back."""
    told = msgspec.structs.replace(heartbeat, note=cut(heartbeat.note))
    await frontier.shards[0].call("beat", name=told.name, message=encode(told))


async def leave(frontier: Frontier, name: str) -> None:
    shard = frontier.shards[0]
    await shard.server.command("HDEL", shard.keys.key("workers"), name)


async def ask_for_spare(frontier: Frontier, name: str, wanted: int) -> int:
    """Requests of a host beyond those in flight, for a worker that is the only one; else none."""
    found: int = await frontier.shards[0].call("spare", name=name, wanted=wanted)
    return found


async def heartbeats(frontier: Frontier) -> list[Heartbeat]:
    """The last heartbeat of everybody, the silent ones too."""
    shard = frontier.shards[0]
    raw = await shard.server.command("HGETALL", shard.keys.key("workers"))
    beats = []
    for value in raw.values():
        with suppress(ValueError):  # of a release that says it otherwise
            beats.append(msgspec.convert(decode(value), Heartbeat))
    return [one for one in beats if math.isfinite(one.at + one.started_at + one.memory_mb)]


async def was_heard(frontier: Frontier, name: str) -> bool:
    """Whether a worker or loader of that name ever said that it is at work; lately enough."""
    if any(one.name == name for one in await heartbeats(frontier)):
        return True
    shard = frontier.shards[0]
    events = shard.keys.key("events")
    entries = await shard.server.command("XREVRANGE", events, "+", "-", "COUNT", EVENTS_LATELY)
    return any(fields[b"worker"] == name.encode() for _, fields in entries)


async def crew(frontier: Frontier) -> list[Heartbeat]:
    """Everybody who was heard of lately. Whoever has been silent for long is struck off."""
    now = await server_time(frontier)
    beats = await heartbeats(frontier)
    for one in beats:
        if now - one.at > 20 * SILENCE_S:
            await leave(frontier, one.name)
    alive = [one for one in beats if now - one.at < SILENCE_S]
    return sorted(alive, key=lambda one: (one.kind, one.host, one.pid))


async def server_time(frontier: Frontier) -> float:
    """Seconds since the epoch, by the clock that all workers share."""
    shard = frontier.shards[0]
    if shard.clock:
        return shard.clock() / 1000
    seconds, micros = await shard.server.command("TIME")
    return float(seconds) + float(micros) / 1e6


async def log(frontier: Frontier, level: str, worker: str, text: str) -> None:
    """Say something to everybody who runs `skitter logs`."""
    line = [level, worker, cut(text)]
    await frontier.shards[0].call("log", line, strict=True, keep=EVENTS_KEPT)


async def read_log(frontier: Frontier, after: str = "-", count: int = 1000) -> list[Event]:
    """The log, oldest first; `after` is the id of the last event one has."""
    shard = frontier.shards[0]
    start = after if after == "-" else f"({after}"
    entries = await shard.server.command(
        "XRANGE", shard.keys.key("events"), start, "+", "COUNT", count
    )
    return [_event(entry, fields) for entry, fields in entries]


def _event(entry: bytes, fields: dict[bytes, bytes]) -> Event:
    return Event(
        id=entry.decode(),
        at=min(int(entry.partition(b"-")[0]) / 1000, END_OF_TIME_S),
        level=_text(fields, b"level"),
        worker=_text(fields, b"worker"),
        text=_text(fields, b"text"),
    )


def _text(fields: dict[bytes, bytes], name: bytes) -> str:
    """Whoever can write to the server can write anything."""
    return fields.get(name, b"").decode("utf-8", "replace")


async def wanted_workers(frontier: Frontier) -> int | None:
    """How many processes the operator wants; None: nobody said, or nothing that makes sense."""
    shard = frontier.shards[0]
    raw = await shard.server.command("HGET", shard.keys.key("control"), "workers") or b""
    return min(int(raw), MOST_WORKERS) if raw.isdigit() and len(raw) < 16 else None
