"""When a host's next request is due: its delay, its record, its clock. And whose turn it is on a
machine."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

import msgspec

from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.keys import RUNS, ShardKeys
from skitter.frontier.transport.messages import decode, ms
from skitter.frontier.transport.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skitter.frontier.transport.connection import Server
    from skitter.settings import Politeness


class Incident(IntEnum):
    """Signs of an overloaded host; other values of `incident` are HTTP statuses."""

    REFUSED = 1
    BLOCKED = 2


class Delay(NamedTuple):
    """Seconds between two requests, and the reason."""

    seconds: float
    why: str


def delay_of(own: Mapping[str, float], politeness: Politeness) -> Delay:
    """The longest of all delays that apply, by the rules of lua/lib/delay.lua. `own` holds values
    of this host, which most lack."""
    delay_s = politeness.delay_s if "delay_ms" not in own else own["delay_ms"] / 1000
    found = [Delay(delay_s, "its own" if "delay_ms" in own else "configured")]
    if "crawl_delay_ms" in own:
        found.append(Delay(own["crawl_delay_ms"] / 1000, "robots.txt asks for it"))
    if "latency_ms" in own and any(delay.seconds for delay in found):
        found.append(_by_latency(own, politeness))
    if "raised_ms" in own:
        found.append(Delay(own["raised_ms"] / 1000, f"it {_what_it_did(own)}"))
    return max(found, key=lambda delay: delay.seconds)


def _by_latency(own: Mapping[str, float], politeness: Politeness) -> Delay:
    latency_s = own["latency_ms"] / 1000
    at_once = own.get("max_in_flight", politeness.max_in_flight)
    seconds = min(politeness.latency_factor * latency_s / at_once, politeness.max_delay_s)
    return Delay(seconds, f"it takes {latency_s:.1f} s to answer")


def _what_it_did(own: Mapping[str, float]) -> str:
    code = int(own.get("incident", 0))
    if code == Incident.REFUSED:
        return "refused a connection"
    return "showed a block page" if code == Incident.BLOCKED else f"answered {code}"


LISTS = ("nowhere", "due", "wait")  # as lua/lib/host.lua numbers them
NEVER = -32768
_FORMAT = struct.Struct("<iiiihBddd")
_Count = Annotated[int, msgspec.Meta(ge=0)]


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a host in `hosts`; lua/lib/host.lua explains the fields. A new host is in no
    list and has no work."""

    in_flight: int = 0
    pages: _Count = 0
    shelved: _Count = 0
    tied: _Count = 1
    best: int = NEVER
    listed_in: Annotated[int, msgspec.Meta(ge=0, lt=len(LISTS))] = 0
    turn: Annotated[float, msgspec.Meta(ge=0)] = 0
    asked_at: float = 0
    blocked_until: float = 0
    own: dict[str, float] = {}


def open_host(packed: bytes) -> HostRecord:
    """Raises ValueError if it is not a host's record."""
    try:
        values = _FORMAT.unpack_from(packed)
    except struct.error as error:
        raise ValueError(str(error)) from None
    own = decode(packed[_FORMAT.size :]) if len(packed) > _FORMAT.size else {}
    fields = zip(HostRecord.__struct_fields__, (*values, own), strict=True)
    return msgspec.convert(dict(fields), HostRecord)


#: Bounds the record, however long URLs are.
MAX_URL_CHARS = 200


class SentRequest(NamedTuple):
    """A finished request, for the audit of politeness."""

    host: str
    url: str
    at_ms: int  # when it left, by the server's clock as given by the lease
    ago_s: float  # the same, by our own clock
    took_s: float
    delay_s: float  # its host's delay at the time

    @property
    def row(self) -> str:
        """The row for record.lua."""
        times = f"{self.at_ms} {ms(self.ago_s)} {ms(self.took_s)} {ms(self.delay_s)}"
        return f"{self.host} {times} {self.url[:MAX_URL_CHARS]}"


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a host: when our last one left, and how long this one would wait."""

    host: str
    moment_ms: int = 0  # our turn, or the moment granted before, if still unused
    ago_s: float | None = None  # since our last request left; None: none did
    max_wait_s: float | None = None  # the longest wait; None: only report
    hold_s: float = 0.0  # how long after the wait it may still leave

    @property
    def arguments(self) -> tuple[str, int, int, int, int]:
        """The EACH row of depart.lua."""
        # 1 ms less, as the server truncates its clock: no request may seem to have left too early.
        ago_ms = -1 if self.ago_s is None else max(0, int(1000 * self.ago_s) - 1)
        max_wait_ms = -1 if self.max_wait_s is None else ms(self.max_wait_s)
        return self.host, self.moment_ms, ago_ms, max_wait_ms, ms(self.hold_s)


class Granted(NamedTuple):
    """When to leave. If that is too late, nothing is reserved."""

    wait_s: float
    moment_ms: int

    @property
    def is_too_late(self) -> bool:
        return self.wait_s < 0


@dataclass(slots=True)
class Share:
    """A job's share of a machine: how many requests it may begin, as others want some, too."""

    shard: Shard
    machine: str
    job: str
    share: int

    @classmethod
    def of(
        cls, server: Server, job: str, share: int, *, clock: Callable[[], int] | None = None
    ) -> Self:
        shard = Shard(server, ShardKeys(RUNS, 0), client_name(), clock)
        return cls(shard, socket.gethostname(), job, share)

    async def take(self, wanted: int) -> int:
        """How many it may begin; 0: ask again soon."""
        return await self._call(wanted, 0)

    async def give_back(self, unused: int) -> None:
        """There is no more to begin now: others need not wait."""
        if unused:
            await self._call(0, unused)

    async def _call(self, wanted: int, unused: int) -> int:
        return await self.shard.share_out(
            machine=self.machine, job=self.job, share=self.share, wanted=wanted, unused=unused
        )
