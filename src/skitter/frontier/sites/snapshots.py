"""Facts about one moment, read by audit.lua and audit_host.lua, for `audit` and `why`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from skitter.frontier.delays import LISTS, NEVER, Delay, HostRecord, delay_of, open_host
from skitter.frontier.transport.messages import added_at, decode, open_record
from skitter.frontier.transport.shard import scan_names
from skitter.model import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from skitter.frontier.transport.shard import Shard
    from skitter.settings import JobOptions

TICKETS = 2**40  # as in lua/lib/score.lua

#: Requests or hosts per script call: keeps the server busy for a millisecond.
AT_ONCE = 100
EXCLUDED_S = 2**46 / 1000  # as in lua/lib/excluded.lua

T = TypeVar("T")


class Trouble(msgspec.Struct, frozen=True):
    """What lua/lib/trouble.lua packs."""

    failures: int = 0
    losses: int = 0
    error: str = ""
    at: float = 0
    priority: int | None = None  # its original one, if retries have lowered it


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Where one fingerprint is, in every structure. None: not there."""

    fingerprint: str
    host: str  # from its body; empty if it has none
    priority: int
    request: Request | None
    added_at: float | None
    score: float | None  # in the queue of its host
    queued: bool
    strayed: bool  # in the queue of another host
    delayed_until: float | None  # seconds, like all times here
    leased_until: float | None
    token: str
    dead_since: float | None
    excluded_since: float | None
    troubled: bool
    trouble: Trouble | None  # None: no record, or an unreadable one
    seen: bool
    depth: str  # links from a seed; empty: unknown
    has_outlinks: bool
    reopenable: float | None  # the limit above which its links are offered again
    shape: float | None  # if it is held: the number of its shape; below 0: of its handler
    on_probation: bool  # it uses the budget of its shape
    visited_again_at: float | None  # it is done, and will be visited again

    @property
    def delayed(self) -> bool:
        return self.delayed_until is not None

    @property
    def leased(self) -> bool:
        return self.leased_until is not None

    @property
    def dead(self) -> bool:
        return self.dead_since is not None

    @property
    def excluded(self) -> bool:
        return self.excluded_since is not None

    @property
    def resting(self) -> bool:
        """It is done, and waits for its next visit."""
        return self.visited_again_at is not None

    @property
    def trapped(self) -> bool:
        return self.shape is not None and self.shape >= 0

    @property
    def unhandled(self) -> bool:
        """No worker has its handler."""
        return self.shape is not None and self.shape < 0


async def request_facts(shard: Shard, batch: list[tuple[str, str]]) -> list[RequestFacts]:
    """Facts about pairs of a fingerprint and the host in whose queue it was found, or ''."""
    rows: list[Any] = []
    for some in _portions(batch):
        rows += await shard.audit(some)
    return [_request_facts(fp, *row) for (fp, _), row in zip(batch, rows, strict=True)]


async def each_request(shard: Shard) -> AsyncIterator[list[RequestFacts]]:
    """Facts about all that have a record, in portions. One may come twice."""
    async for names in scan_names(shard, "task"):
        yield await request_facts(shard, [(name, "") for name in names])


def _request_facts(fp: str, record: bytes, *scores: Any) -> RequestFacts:
    queued, strayed, delayed, leased, token, dead, trouble, seen, *more = scores
    depth, outlinks, above, shape, on_probation, revisit = more
    priority, host, request = open_body(record) if record else (0, "", None)
    given_up = _seconds(dead)
    excluded = given_up is not None and given_up >= EXCLUDED_S
    return RequestFacts(
        fingerprint=fp,
        host=host,
        priority=priority,
        request=request,
        added_at=added_at(record),
        score=float(queued) if queued != b"" else None,
        # Without a body we cannot tell whose queue it belongs to.
        queued=queued != b"" or (strayed != b"" and not record),
        strayed=strayed != b"" and bool(record),
        delayed_until=_seconds(delayed),
        leased_until=_seconds(leased),
        token=token.decode("utf-8", "replace"),
        dead_since=None if excluded else given_up,
        excluded_since=given_up - EXCLUDED_S if given_up is not None and excluded else None,
        troubled=bool(trouble),
        trouble=open_trouble(trouble),
        seen=bool(seen),
        depth=depth.decode("utf-8", "replace"),
        has_outlinks=bool(outlinks),
        reopenable=float(above) if above != b"" else None,
        shape=float(shape) if shape != b"" else None,
        on_probation=bool(on_probation),
        visited_again_at=_seconds(revisit),
    )


def _portions(values: list[T]) -> Iterator[list[T]]:
    return (values[first : first + AT_ONCE] for first in range(0, len(values), AT_ONCE))


def open_trouble(packed: bytes) -> Trouble | None:
    """None: there is none, or it cannot be read."""
    return _convert(packed, Trouble) if packed else None


def open_body(record: bytes) -> tuple[int, str, Request | None]:
    """Priority, host and request of a record; None: the request cannot be read."""
    try:
        return open_record(record)
    except ValueError:  # msgspec's errors are ValueErrors
        host = record.split(b" ", 2)[1:2] or [b"?"]
        return 0, host[0].decode("utf-8", "replace") or "?", None


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one host, and which lists it is in."""

    name: str
    readable: bool
    in_flight: int
    shelved: int  # pending requests beyond its budget
    pages: int
    listed_in: str
    best: int | None  # the priority it is ranked by; None: unknown until looked up
    turn: float  # ticket of its last turn
    head_priority: int | None
    head: float | None  # score of the first request in its queue
    queued: int
    rank: float | None  # in `due`
    opens_ms: float | None  # in `wait`
    asked_at: float  # seconds; 0: never
    blocked_until: float
    own: dict[str, float]  # values in place of the job's

    @property
    def due(self) -> bool:
        return self.rank is not None

    @property
    def waiting(self) -> bool:
        return self.opens_ms is not None

    def delay(self, options: JobOptions) -> Delay:
        return delay_of(self.own, options.politeness)

    def opens_at(self, options: JobOptions) -> float:
        """When it may be asked again, in seconds."""
        return max(self.asked_at + self.delay(options).seconds, self.blocked_until)

    def may_be_asked(self, options: JobOptions) -> bool:
        """Whether a slot and budget are left, regardless of its delay."""
        limit = self.own.get("max_in_flight", options.politeness.max_in_flight)
        budget = self.own.get("max_pages", options.limits.max_pages_per_host or math.inf)
        return self.in_flight < limit and self.pages + self.in_flight < budget


async def host_facts(shard: Shard, names: list[str]) -> list[HostFacts]:
    rows: list[Any] = []
    for some in _portions(names):
        rows += await shard.audit_host(some)
    return [_host_facts(name, *row) for name, row in zip(names, rows, strict=True)]


def _host_facts(
    name: str, packed: bytes, due: bytes, wait: bytes, queued: int, head: bytes
) -> HostFacts:
    try:
        known, readable = open_host(packed) if packed else HostRecord(), True
    except ValueError:  # msgspec's errors are ValueErrors
        known, readable = HostRecord(), False
    return HostFacts(
        name=name,
        readable=readable,
        shelved=known.shelved,
        in_flight=known.in_flight,
        pages=known.pages,
        listed_in=LISTS[known.listed_in],
        best=None if known.tied == 0 or known.best == NEVER else known.best,
        turn=known.turn,
        head_priority=priority_of(float(head)) if head else None,
        head=float(head) if head else None,
        queued=queued,
        rank=float(due) if due else None,
        opens_ms=float(wait) if wait else None,
        asked_at=known.asked_at / 1000,
        blocked_until=known.blocked_until / 1000,
        own=known.own,
    )


def _convert(packed: bytes, kind: type[T]) -> T | None:
    """None: damaged."""
    try:
        return msgspec.convert(decode(packed), kind)
    except ValueError:  # msgspec's errors are ValueErrors
        return None


def priority_of(score: float) -> int:
    """The priority in a score; out of range for an infinite one."""
    return -math.floor(score / TICKETS) if math.isfinite(score) else 2**20


def ticket_of(score: float, *, lifo: bool) -> float:
    """The order of arrival in a score, as encoded by lua/lib/score.lua."""
    if not math.isfinite(score):
        return 0
    place = score % TICKETS
    return TICKETS - 1 - place if lifo else place


def _seconds(score: bytes) -> float | None:
    return float(score) / 1000 if score != b"" else None
