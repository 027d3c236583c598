"""The processes of a job: their heartbeats, how many there should be, and their log."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from skitter.errors import ServerUnreachable, SkitterError
from skitter.frontier.transport.messages import cut, decode, encode, side_by_side
from skitter.observe.report import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.shard import Shard


EVENTS_KEPT = 10_000
LOG_PAGE = 1000  # events read at once
END_OF_TIME_S = 253_402_300_799.0  # the last second of the year 9999: an id can hold any number

T = TypeVar("T", bound=msgspec.Struct)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    id: str
    at: float
    level: str
    worker: str
    text: str
    url: str = ""  # the page concerned


async def log(frontier: Frontier, level: str, worker: str, text: str) -> None:
    """Write a line for `skitter logs`: the log of a job, written by all its processes."""
    await log_lines(frontier, worker, [(level, text, "")])


async def log_lines(
    frontier: Frontier,
    worker: str,
    lines: Iterable[tuple[str, str, str] | tuple[str, str, str, float]],
) -> None:
    """Write several lines, each of level, text, URL and, if it is not now, the server's time."""
    each = [
        # The job's log is read by those who may not know where the server is.
        (level, worker, cut(text.replace(frontier.server.where, "the server")), cut(url), _ms(*at))
        for level, text, url, *at in lines
    ]
    await frontier.home.log(each, keep=EVENTS_KEPT)


def _ms(at_s: float | None = None) -> str:
    return "" if at_s is None else f"{1000 * at_s:.0f}"


async def read_log(frontier: Frontier, after: str = "-", count: int = 1000) -> list[Event]:
    """The log, oldest first; `after` is the id of the last event you have."""
    start = after if after == "-" else f"({after}"
    entries = await frontier.home.command("XRANGE", "events", start, "+", "COUNT", count)
    return [open_entry(Event, entry, fields) for entry, fields in entries]


async def last_log(frontier: Frontier, count: int) -> list[Event]:
    """The end of the log, oldest first."""
    entries = await frontier.home.command("XREVRANGE", "events", "+", "-", "COUNT", count)
    return [open_entry(Event, entry, fields) for entry, fields in reversed(entries)]


def open_entry(kind: type[T], entry: bytes, fields: dict[bytes, bytes]) -> T:
    """Decode an entry of a stream: its id, its time, and the fields of `kind`."""
    at_s = min(int(entry.partition(b"-")[0]) / 1000, END_OF_TIME_S)
    happened = fields.get(b"at", b"")
    if happened.isdigit() and len(happened) < 16:
        at_s = min(int(happened) / 1000, at_s)  # it arrived later, when the server was back
    names = [name for name in kind.__struct_fields__ if name not in ("id", "at")]
    # Other clients of the server can write anything.
    texts = {name: fields.get(name.encode(), b"").decode("utf-8", "replace") for name in names}
    return kind(id=entry.decode(), at=at_s, **texts)


EVENTS_LATELY = 1000
AT_ONCE = 500  # leases
#: A worker that has been silent for this long is gone.
SILENCE_S = 15.0
#: A machine that has been silent for this long will not come back.
FORGET_S = 3600.0
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
    spider: str = ""  # its name and version: spider/source.py
    release: str = ""  # of Skitter; empty: before 0.2


async def beat(frontier: Frontier, heartbeat: Heartbeat) -> None:
    """Store a heartbeat. Raises JobMissing for a job that is gone, and does not recreate it."""
    short = msgspec.structs.replace(heartbeat, note=cut(heartbeat.note))
    await frontier.home.beat(name=short.name, message=encode(short), supervises=0)


async def leave(frontier: Frontier, name: str) -> None:
    await frontier.home.command("HDEL", "workers", name)


async def report_machine(frontier: Frontier, heartbeat: Heartbeat) -> None:
    """Store the heartbeat of a supervisor: what shares out the workers of a job must know of
    machines without a worker, too."""
    message = encode(heartbeat)
    await frontier.home.beat(name=heartbeat.name, message=message, supervises=1)


async def leave_machine(frontier: Frontier, name: str) -> None:
    await frontier.home.command("HDEL", "machines", name)


async def live_machines(frontier: Frontier) -> list[Heartbeat]:
    now = await frontier.server_time()
    return [
        supervisor for supervisor in await supervisors(frontier) if now - supervisor.at < SILENCE_S
    ]


async def supervisors(frontier: Frontier) -> list[Heartbeat]:
    """The last heartbeat of every supervisor, oldest first, including those gone silent."""
    found = _read_beats(await frontier.home.command("HGETALL", "machines"))
    return sorted(found, key=lambda one: (one.started_at, one.name))


async def ask_for_spare(frontier: Frontier, name: str, wanted: int) -> int:
    """How many requests per host a job's only worker may hold beyond those in flight; else 0."""
    return await frontier.home.spare(name=name, wanted=wanted)


async def heartbeats(frontier: Frontier) -> list[Heartbeat]:
    """The last heartbeat of every process, including those gone silent."""
    return _read_beats(await frontier.home.command("HGETALL", "workers"))


def _read_beats(raw: dict[bytes, bytes]) -> list[Heartbeat]:
    beats = []
    for value in raw.values():
        with suppress(ValueError):  # from a release with another format
            beats.append(msgspec.convert(decode(value), Heartbeat))
    return [one for one in beats if math.isfinite(one.at + one.started_at + one.memory_mb)]


async def was_heard(frontier: Frontier, name: str) -> bool:
    """Whether a worker or loader of that name has a heartbeat or a recent line in the log."""
    if any(heartbeat.name == name for heartbeat in await heartbeats(frontier)):
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


# --- machines -------------------------------------------------------------------------------------


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that works on a job, or did until it fell silent."""

    host: str
    at: float  # when it was last heard
    is_lost: bool  # no process on it has reported for SILENCE_S
    workers: int = 0  # processes that fetch
    loaders: int = 0
    pages: int = 0
    active: int = 0  # requests in flight
    memory_mb: float = 0.0
    note: str = ""  # what it held when it was lost, and what came of it


def machines_of(
    beats: Sequence[Heartbeat], heads: Sequence[Heartbeat], now: float
) -> list[Machine]:
    """By name, lost ones first. `heads`: the supervisors. Pure."""
    found = []
    for host in {process.host for process in (*beats, *heads)}:
        here = [one for one in beats if one.host == host]
        chiefs = [head for head in heads if head.host == host]
        at = max(chief.at for chief in (*here, *chiefs))
        is_lost = now - at >= SILENCE_S
        alive = living(here, now)
        found.append(
            Machine(
                host=host,
                at=at,
                is_lost=is_lost,
                workers=sum(one.kind in FETCHING for one in alive),
                loaders=sum(one.kind == "loader" for one in alive),
                pages=sum(one.pages for one in alive),
                active=sum(one.active for one in alive),
                memory_mb=sum(one.memory_mb for one in alive),
                note=max((chief.note for chief in chiefs), default="") if is_lost else "",
            )
        )
    return sorted(found, key=lambda machine: (not machine.is_lost, machine.host))


async def note_lost_machines(frontier: Frontier) -> list[str]:
    """Note what a machine that fell silent held, and later what came of it; returns what is new,
    for the log. Machines that are silent for FORGET_S are forgotten."""
    now, heads = await frontier.server_time(), await supervisors(frontier)
    alive = {head.host for head in heads if now - head.at < SILENCE_S}
    news = []
    for head in heads:
        silent_s = now - head.at
        if silent_s >= SILENCE_S and (head.host in alive or silent_s > FORGET_S):
            await leave_machine(frontier, head.name)  # it is back, or will not come back
        elif silent_s >= SILENCE_S and (not head.note or head.note.endswith(HELD)):
            held = await _count_held(frontier, head.name)
            if head.note and held:
                continue
            note = head.note.replace(HELD, RETURNED) if head.note else "it held no URL"
            note = f"it held {some(held, 'URL')}{HELD}" if held else note
            await report_machine(frontier, msgspec.structs.replace(head, note=note))
            news.append(f"machine {head.host} is lost: silent for {silent_s:.0f} s; {note}")
    return news


async def log_lost_machines(frontier: Frontier, who: str) -> None:
    for text in await note_lost_machines(frontier):
        await log(frontier, "error", who, text)


HELD = ": others take over when its leases end"
RETURNED = ", returned to the queue"


async def _count_held(frontier: Frontier, head: str) -> int:
    """How many leases the processes of a supervisor's machine have, by the names in their tokens:
    they begin as that of the supervisor does."""
    name = re.escape(head.rsplit("-", 2)[0]).encode()
    ours = re.compile(name + rb"-\d+-[0-9a-f]{8}\.")
    held = 0
    for shard in frontier.shards:
        cursor = 0
        while True:
            cursor, holders = await shard.command("HSCAN", "holder", cursor, "COUNT", 500)
            held += sum(ours.match(token) is not None for token in holders.values())
            if not int(cursor):
                break
    return held


# --- how many there should be ---------------------------------------------------------------------


class Wish(msgspec.Struct, frozen=True):
    """How many workers an operator wants."""

    workers: int  # 0: as many as the work is worth
    per_machine: bool = False  # else: in all, spread over the machines


AUTO = Wish(0)


async def set_wanted_workers(frontier: Frontier, wish: Wish) -> None:
    """Supervisors follow at once."""
    alone = wish.per_machine or not wish.workers
    fields = [("fleet", "" if alone else wish.workers), ("workers", wish.workers if alone else "")]
    await frontier.home.control(fields, create=0)


async def read_wish(frontier: Frontier) -> Wish | None:
    """None: not set, or not a number."""
    wish, _ = await read_wish_and_life(frontier)
    return wish


#: `born` is counted up when clients must forget what they know of a job: by far less than this.
LIFE: Final = 2**20


async def read_wish_and_life(frontier: Frontier) -> tuple[Wish | None, int]:
    """The workers that are wanted, and a number that another job of this name would not have."""
    raw = await frontier.home.command("HMGET", "control", "fleet", "workers", "born")
    total, number, born = _number(raw[0]), _number(raw[1]), raw[2] or b""
    life = int(born) // LIFE if born.isdigit() and len(born) < 20 else 0
    if total:
        return Wish(total), life
    return None if number is None else Wish(number, per_machine=number > 0), life


async def wanted_workers(frontier: Frontier) -> int | None:
    """The number alone."""
    wish = await read_wish(frontier)
    return wish.workers if wish else None


def _number(raw: bytes | None) -> int | None:
    raw = raw or b""
    return min(int(raw), MAX_WORKERS) if raw.isdigit() and len(raw) < 16 else None


def share_of(total: int, mine: str, names: Sequence[str]) -> int:
    """What one of several supervisors runs of a total; the first ones take the rest. Every
    supervisor computes the same. Pure."""
    order = [*names] if mine in names else [*names, mine]
    number, rest = divmod(total, len(order))
    return number + (order.index(mine) < rest)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a wish would do on one machine."""

    host: str
    running: int
    becomes: int | None  # None: automatic


def changes_by(
    wish: Wish, beats: Sequence[Heartbeat], machines: Sequence[Heartbeat]
) -> list[Change]:
    """What would start and stop where. Both arguments are of live processes. Pure."""
    names = [machine.name for machine in machines]
    found = []
    for host in dict.fromkeys(machine.host for machine in machines):
        mine = [machine.name for machine in machines if machine.host == host]
        becomes = sum(
            wish.workers if wish.per_machine else share_of(wish.workers, name, names)
            for name in mine
        )
        running = sum(one.host == host and one.kind == "worker" for one in beats)
        found.append(Change(host=host, running=running, becomes=becomes if wish.workers else None))
    return found


def describe_changes(changes: Sequence[Change]) -> str:
    """`1 stops on web-3; 2 start on web-1`; empty if nothing does. Pure."""
    parts = []
    for change in changes:
        more = 0 if change.becomes is None else change.becomes - change.running
        if more:
            verb = "start" if more > 0 else "stop"
            parts.append(f"{abs(more):,} {verb}{'s' * (abs(more) == 1)} on {change.host}")
    return "; ".join(parts)


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
