"""Look at the raw keys of a shard and say what does not fit together.

Spelled out anew on purpose: it shares no line with the frontier, its scripts or its audit.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import redis

from property.model import gap_ms
from skitter.frontier.delays import NEVER, HostRecord, open_host

PLAIN = {
    **dict.fromkeys(("control", "stats", "pot", "hosts", "task", "holder", "trouble"), "hash"),
    **dict.fromkeys(("depths", "outlinks"), "hash"),
    **dict.fromkeys(("due", "wait", "delayed", "lease", "dead", "edge"), "zset"),
    "marks": "zset",  # of the figures; nothing depends on them
    "totals": "hash",
    "items": "stream",
    "trips": "list",  # of the audit of politeness; nothing depends on it
}
FAMILIES = {"queue": "zset", "seen": "set", "recent": "hash", "counts": "string", "timings": "hash"}
EXPIRING = ("recent:", "totals", "counts:", "timings:")
NOWHERE, DUE, WAIT = 0, 1, 2
TICKETS = 2**40
MAX_INTSET = 512


@dataclass
class Queued:
    """A score taken apart."""

    priority: int
    ticket: int


@dataclass
class Body:
    """A value of `task` taken apart."""

    priority: int
    host: str
    request: dict[str, Any]


@dataclass
class Picture:
    """Everything a shard holds, at one moment."""

    control: dict[str, str] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)
    pot: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, HostRecord] = field(default_factory=dict)
    task: dict[str, Body] = field(default_factory=dict)
    holder: dict[str, str] = field(default_factory=dict)
    trouble: dict[str, dict[str, Any]] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    wait: dict[str, float] = field(default_factory=dict)
    delayed: dict[str, float] = field(default_factory=dict)
    lease: dict[str, float] = field(default_factory=dict)
    dead: dict[str, float] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    outlinks: dict[str, tuple[int, list[Any]]] = field(default_factory=dict)
    edge: dict[str, float] = field(default_factory=dict)
    queues: dict[str, dict[str, Queued]] = field(default_factory=dict)
    seen: dict[int, list[str]] = field(default_factory=dict)
    encodings: dict[int, str] = field(default_factory=dict)
    items: list[tuple[str, int, Any]] = field(default_factory=list)
    marks: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # with the keys themselves

    def states(self) -> dict[str, str]:
        """fingerprint -> state, of all that are not done."""
        found = {fp: "pending" for queue in self.queues.values() for fp in queue}
        for state, fps in (("delayed", self.delayed), ("leased", self.lease), ("dead", self.dead)):
            found |= dict.fromkeys(fps, state)
        return found

    def leases_of(self, host: str) -> int:
        return sum(1 for fp in self.lease if fp in self.task and self.task[fp].host == host)

    def share(self) -> int:
        """What the shard has of a max_pages that many have together."""
        return self.stats.get("granted", 0) - self.stats.get("ceded", 0)

    def limit(self, name: str) -> float:
        return float(self.control.get(name, math.inf))


# --- reading --------------------------------------------------------------------------------------


def take_pictures(client: redis.Redis, job: str, *, shards: int) -> list[Picture]:
    """One picture per shard, in two round trips, nothing happening between."""
    prefixes = [f"skitter:{{{job}:{shard}}}:" for shard in range(shards)]
    found: Any = client.keys(f"skitter:{{{job}:*")
    keys = sorted(key.decode() for key in found)
    names = [(key, *_place_of(key, prefixes)) for key in keys]
    pictures = [Picture() for _ in prefixes]
    pipe = client.pipeline(transaction=True)
    for key, _, name in names:
        pipe.type(key)
        pipe.pttl(key)
        pipe.object("ENCODING", key)
        _ask(pipe, _type_of(name), key)
    facts = iter(pipe.execute(raise_on_error=False))
    for _, shard, name in names:
        kind, ttl, encoding, value = (next(facts) for _ in range(4))
        picture = pictures[shard]
        if problems := _key_problems(name, kind.decode(), ttl):
            picture.problems += problems
        else:
            _fill(picture, name, value, encoding.decode())
    return pictures


def _place_of(key: str, prefixes: list[str]) -> tuple[int, str]:
    """The shard and the name in it; a key of no shard is shown with the first."""
    for shard, prefix in enumerate(prefixes):
        if key.startswith(prefix):
            return shard, key.removeprefix(prefix)
    return 0, key


def _type_of(name: str) -> str | None:
    family, colon, member = name.partition(":")
    if not colon:
        return PLAIN.get(name)
    return FAMILIES.get(family) if member else None


def _key_problems(name: str, kind: str, ttl: int) -> list[str]:
    problems = []
    if _type_of(name) is None:
        return [f"{name} is an unknown key"]
    if kind != _type_of(name):
        problems.append(f"{name} is a {kind}")
    if name.startswith(EXPIRING) != (ttl > 0):
        problems.append(f"{name} has a time to live of {ttl} ms")
    return problems


def _ask(pipe: Any, kind: str | None, key: str) -> None:
    if kind == "hash":
        pipe.hgetall(key)
    elif kind == "zset":
        pipe.zrange(key, 0, -1, withscores=True)
    elif kind == "set":
        pipe.smembers(key)
    elif kind == "stream":
        pipe.xrange(key)
    else:
        pipe.exists(key)


def _fill(picture: Picture, name: str, value: Any, encoding: str) -> None:
    family, _, member = name.partition(":")
    if family == "queue":
        picture.queues[member] = {fp.decode(): _take_apart(score) for fp, score in value}
    elif family == "seen":
        picture.seen[int(member)] = [fp.decode() for fp in value]
        picture.encodings[int(member)] = encoding
    elif family == "items":
        picture.items = [_item(fields) for _, fields in value]
    elif PLAIN.get(family) == "zset":
        setattr(picture, family, {each.decode(): score for each, score in value})
    elif family in _DECODERS:
        decode = _DECODERS[family]
        setattr(picture, family, {each.decode(): decode(raw) for each, raw in value.items()})


def _take_apart(score: float) -> Queued:
    level, ticket = divmod(int(score), TICKETS)
    # In a job of order lifo tickets are counted from the other end.
    return Queued(-level, ticket if ticket < TICKETS // 2 else TICKETS - 1 - ticket)


def _body(raw: bytes) -> Body:
    priority, host, request = raw.split(b" ", 2)
    return Body(int(priority), host.decode(), msgspec.msgpack.decode(request))


def _item(fields: dict[bytes, bytes]) -> tuple[str, int, Any]:
    content = msgspec.msgpack.decode(fields[b"item"])
    return fields[b"fp"].decode(), int(fields[b"n"]), content["item"]


_DECODERS: dict[str, Any] = {
    "control": bytes.decode,
    "stats": int,
    "pot": int,
    "hosts": open_host,
    "task": _body,
    "holder": bytes.decode,
    "trouble": msgspec.msgpack.decode,
    "depths": int,
    "outlinks": lambda raw: msgspec.msgpack.decode(zlib.decompress(raw)),
}


# --- judging --------------------------------------------------------------------------------------


def find_problems(picture: Picture) -> list[str]:
    """Sentences on what is wrong; none if all is well."""
    if picture.problems:
        return picture.problems
    standing = [*picture.due, *picture.wait, *picture.queues]
    return [
        *[f"the host {name} has no record" for name in standing if name not in picture.hosts],
        *_about_pages(picture),
        *_about_queues(picture),
        *_about_counters(picture),
        *_about_seen(picture),
        *[line for host, known in picture.hosts.items() for line in _about(picture, host, known)],
    ]


def _about_pages(picture: Picture) -> list[str]:
    places = Counter(fp for queue in picture.queues.values() for fp in queue)
    for fps in (picture.delayed, picture.lease, picture.dead):
        places.update(fps.keys())
    remembered = {fp for bucket in picture.seen.values() for fp in bucket}
    return [
        *[f"{fp} is in {n} places" for fp, n in places.items() if n != 1],
        *[f"{fp} has work to do and no body" for fp in places if fp not in picture.task],
        *[f"{fp} has a body and nothing to do" for fp in picture.task if fp not in places],
        *[f"{fp} is there and not seen" for fp in picture.task if fp not in remembered],
        *[f"{fp} has a lease but no holder" for fp in picture.lease if fp not in picture.holder],
        *[f"{fp} is held and not leased" for fp in picture.holder if fp not in picture.lease],
        *[f"{fp} had trouble and is gone" for fp in picture.trouble if fp not in picture.task],
        *[f"{fp} has a depth and is not seen" for fp in picture.depths if fp not in remembered],
        *[f"{fp} keeps links and is not done" for fp in picture.outlinks if fp in picture.task],
        *[f"{fp} keeps links and is not seen" for fp in picture.outlinks if fp not in remembered],
        *[f"{fp} is to offer no links" for fp in picture.edge if fp not in picture.outlinks],
        *[f"{fp} is dead for no reason" for fp in picture.dead if fp not in picture.trouble],
        *[
            f"{fp} is of the unknown host {body.host}"
            for fp, body in picture.task.items()
            if body.host not in picture.hosts
        ],
    ]


def _about_queues(picture: Picture) -> list[str]:
    problems = []
    tickets: Counter[int] = Counter()
    for host, queue in picture.queues.items():
        for fp, queued in queue.items():
            tickets[queued.ticket] += 1
            body = picture.task.get(fp)
            if body and (body.host, body.priority) != (host, queued.priority):
                problems.append(f"{fp} stands in line as {queued} at {host}, its body says {body}")
    problems += [f"ticket {ticket} was drawn {n} times" for ticket, n in tickets.items() if n > 1]
    if tickets and max(tickets) > picture.stats["ticket"]:
        problems.append("a ticket was never drawn")
    return problems


def _about_counters(picture: Picture) -> list[str]:
    stats = Counter(picture.stats)
    expected = {
        "pending": sum(len(queue) for queue in picture.queues.values()),
        "shelved": sum(known.shelved for known in picture.hosts.values()),
        "done": sum(known.pages for known in picture.hosts.values()),
        "seen": sum(len(bucket) for bucket in picture.seen.values()),
    }
    problems = [
        f"the counter {name} is {stats[name]}, there are {count}"
        for name, count in expected.items()
        if stats[name] != count
    ]
    waiting = stats["pending"] + len(picture.delayed) + len(picture.lease)
    over = stats["done"] + len(picture.dead) + stats["dropped"]
    if stats["seen"] != waiting + over:
        problems.append(f"{stats['seen']} were seen, {waiting} wait and {over} are over")
    return problems + [f"{name} is {n}" for name, n in stats.items() if n < 0]


def _about_seen(picture: Picture) -> list[str]:
    buckets = max(1, picture.stats.get("buckets", 1))
    problems = []
    for bucket, fps in picture.seen.items():
        if picture.encodings[bucket] != "intset" or len(fps) > MAX_INTSET:
            problems.append(f"bucket {bucket} is not compact")
        astray = [fp for fp in fps if _bucket_of(fp, buckets) != bucket]
        problems += [f"{fp} is in bucket {bucket} of {buckets}" for fp in astray]
    return problems


def _bucket_of(fp: str, buckets: int) -> int:
    """Linear hashing: the low bits, one less of them where that bucket is not there yet."""
    span = 1
    while span * 2 <= buckets:
        span *= 2
    low = int(fp[-9:]) % (span * 2)
    return low if low < buckets else low % span


def _about(picture: Picture, name: str, known: HostRecord) -> list[str]:
    problems = []
    queue = picture.queues.get(name, {})
    best = max((queued.priority for queued in queue.values()), default=NEVER)
    if known.in_flight != picture.leases_of(name):
        problems.append(f"{picture.leases_of(name)} are leased")
    ties = sum(queued.priority == best for queued in queue.values())
    if known.tied and (known.best != best or known.tied > max(1, ties)):
        problems.append(f"its best priority is {best}, which {ties} have")
    spent = known.pages >= _own(picture, known, "max_pages", "max_pages_per_host")
    if known.shelved != (len(queue) if spent else 0):
        problems.append(
            f"{len(queue)} are pending and its budget is {'' if spent else 'not '}spent"
        )
    if known.listed_in not in _places(picture, known, has_work=bool(queue)):
        problems.append("its place is not where it belongs")
    delay_ms = int(_own(picture, known, "delay_ms", "delay_ms"))
    at_once = _own(picture, known, "max_in_flight", "max_in_flight")
    opens_at = max(known.asked_at + gap_ms(delay_ms, at_once), known.blocked_until)
    ranks = {
        NOWHERE: (None, None),
        DUE: (-best * TICKETS + known.turn, None),
        WAIT: (None, opens_at),
    }
    if (picture.due.get(name), picture.wait.get(name)) != ranks[known.listed_in]:
        problems.append(f"it stands at due {picture.due.get(name)}, wait {picture.wait.get(name)}")
    return [f"host {name} {known}: {problem}" for problem in problems]


def _places(picture: Picture, known: HostRecord, *, has_work: bool) -> tuple[int, ...]:
    """Where a host may stand. Due or waiting depends on when it was last looked at."""
    at_once = _own(picture, known, "max_in_flight", "max_in_flight")
    budget = _own(picture, known, "max_pages", "max_pages_per_host")
    full = known.in_flight >= at_once or known.pages + known.in_flight >= budget
    return (NOWHERE,) if full or not has_work else (DUE, WAIT)


def _own(picture: Picture, known: HostRecord, name: str, of_job: str) -> float:
    return float(known.own.get(name, picture.limit(of_job)))
