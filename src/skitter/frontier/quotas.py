"""Quotas of tenants: what all jobs of one name pattern may have together (docs/adr/0104)."""

from __future__ import annotations

import math
import re
import secrets
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, get_args

import msgspec

from skitter.errors import BadOption, FrontierError, QuotaReached, UsageError, shorten
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.keys import JOBS, RUNS, TENANTS, ShardKeys
from skitter.frontier.transport.messages import side_by_side
from skitter.frontier.transport.shard import Shard
from skitter.frontier.transport.sync import pause
from skitter.settings import check_number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from skitter.frontier.transport.connection import Server
    from skitter.model import Lease

#: Running processes obey a new quota within this time.
FRESH_S: Final = 5.0
#: How old the count of waiting URLs may be, but for those that were added since.
COUNTED_S: Final = 1.0
MAX_TENANTS: Final = 200
LONGEST_PATTERN: Final = 100
DAY_MS: Final = 86_400_000
TAKEN: Final = re.compile(r"\.(\d+)~?$")

MOST: Final = 2**40
Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST)] | None
Quota = Literal["max_jobs", "max_pending", "max_pages_per_day"]
QUOTAS: tuple[Quota, ...] = get_args(Quota)


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of the jobs whose names match a pattern. None: no limit."""

    jobs: str = ""  # a name, or a pattern with * and ?; on the server, the name of the field
    max_jobs: Limit = None
    max_pending: Limit = None
    max_pages_per_day: Limit = None

    def has(self, job: str) -> bool:
        return fnmatchcase(job, self.jobs)


class QuotaUse(msgspec.Struct, frozen=True, kw_only=True):
    """A quota, and how much of it is in use."""

    tenant: str
    quota: Quota
    used: int
    limit: int

    def counts(self, job: str) -> bool:
        """Whether it is a quota of this job, too."""
        return fnmatchcase(job, self.tenant)

    @property
    def is_reached(self) -> bool:
        return self.used >= self.limit

    @property
    def raise_it(self) -> str:
        """The command."""
        return f"skitter tenant set '{self.tenant}' --{self.quota.replace('_', '-')} N"


async def list_tenants(server: Server) -> list[Tenant]:
    """By pattern. Unreadable records are skipped: `skitter audit` is about jobs, and a quota that
    nobody can read is not one that somebody set."""
    found = []
    for name, raw in (await server.command("HGETALL", TENANTS)).items():
        with suppress(msgspec.MsgspecError):
            tenant = msgspec.json.decode(raw, type=Tenant)
            found.append(msgspec.structs.replace(tenant, jobs=name.decode("utf-8", "replace")))
    return sorted(found, key=lambda one: one.jobs)


async def set_tenant(server: Server, pattern: str, changes: Mapping[Quota, int | None]) -> Tenant:
    """Change some quotas of a tenant; None: no limit. What a newer release has set is kept."""
    if not 1 <= len(pattern) <= LONGEST_PATTERN or not pattern.isprintable():
        says = f"a name or pattern of 1 to {LONGEST_PATTERN} characters, such as 'shop-*'"
        raise BadOption("the tenant", pattern, says)
    for name, value in changes.items():
        if value is not None:
            check_number(name, value, low=1, high=MOST, whole=True)
    raw = await server.command("HGET", TENANTS, pattern)
    if raw is None and await server.command("HLEN", TENANTS) >= MAX_TENANTS:
        raise UsageError(f"there are {MAX_TENANTS} tenants: `skitter tenant remove` some.")
    fields: dict[str, Any] = {}
    with suppress(msgspec.MsgspecError):  # damaged: set anew
        msgspec.json.decode(raw or b"{}", type=Tenant)
        fields = msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    fields |= {str(name): value for name, value in changes.items()}
    await server.command("HSET", TENANTS, pattern, msgspec.json.encode(fields))
    return msgspec.convert({**fields, "jobs": pattern}, Tenant)


async def remove_tenant(server: Server, pattern: str) -> None:
    """Its jobs stay, without its quotas."""
    if not await server.command("HDEL", TENANTS, pattern):
        raise UsageError(
            f"there is no tenant {shorten(pattern)!r}: `skitter tenant list` shows them."
        )


# --- what is used ---------------------------------------------------------------------------------


async def uses_of(server: Server, tenants: Iterable[Tenant]) -> list[QuotaUse]:
    """How much of each quota is in use."""
    return [
        QuotaUse(
            tenant=tenant.jobs, quota=quota, used=await COUNTS[quota](server, tenant), limit=limit
        )
        for tenant in tenants
        for quota in QUOTAS
        if (limit := getattr(tenant, quota)) is not None
    ]


class _Layout(msgspec.Struct):
    shards: int = 1


async def _shards_of(server: Server, tenant: Tenant) -> list[list[Shard]]:
    """The shards of each of its jobs. A damaged layout counts as one."""
    found = []
    for name, raw in (await server.command("HGETALL", JOBS)).items():
        if tenant.has(job := name.decode("utf-8", "replace")):
            shards = 1
            with suppress(msgspec.MsgspecError):
                shards = msgspec.json.decode(raw, type=_Layout).shards
            found.append([Shard(server, ShardKeys(job, n), "") for n in range(shards)])
    return found


async def _count_jobs(server: Server, tenant: Tenant) -> int:
    return len(await _shards_of(server, tenant))


async def _count_pending(server: Server, tenant: Tenant) -> int:
    """As lua/lib/room.lua counts them."""

    async def count(shard: Shard) -> int:
        pending, shelved = await shard.command("HMGET", "stats", "pending", "shelved")
        delayed: int = await shard.command("ZCARD", "delayed")
        return int(pending or 0) - int(shelved or 0) + delayed

    jobs = await _shards_of(server, tenant)
    return sum(await side_by_side(count(shard) for shards in jobs for shard in shards))


async def _count_today(server: Server, tenant: Tenant) -> int:
    seconds, _ = await server.command("TIME")
    day = int(seconds) * 1000 // DAY_MS
    used = await server.command("HGET", ShardKeys(RUNS, 0).key("begun", str(day)), tenant.jobs)
    return int(used or 0)


COUNTS: dict[Quota, Callable[[Server, Tenant], Any]] = {
    "max_jobs": _count_jobs,
    "max_pending": _count_pending,
    "max_pages_per_day": _count_today,
}


# --- jobs -----------------------------------------------------------------------------------------

LOCK, LOCK_MS, LOCK_WAIT_S = TENANTS + ":lock", 5000, 10.0


async def check_new_job(server: Server, job: str) -> None:
    """Raises QuotaReached if its tenant has no room for one more."""
    for use in await uses_of(server, await _with_max_jobs(server, job)):
        if use.is_reached:
            raise QuotaReached(job, use.tenant, use.quota, limit=use.limit, command=use.raise_it)


async def _with_max_jobs(server: Server, job: str) -> list[Tenant]:
    return [
        Tenant(jobs=tenant.jobs, max_jobs=tenant.max_jobs)
        for tenant in await list_tenants(server)
        if tenant.has(job) and tenant.max_jobs is not None
    ]


@asynccontextmanager
async def room_for_job(server: Server, job: str) -> AsyncIterator[None]:
    """Register a job in the block. Where a quota counts jobs, one at a time: two that come together
    must not both be the last. Raises QuotaReached."""
    if not await _with_max_jobs(server, job):
        yield
        return
    me, until = secrets.token_hex(8), time.monotonic() + LOCK_WAIT_S
    while not await server.command("SET", LOCK, me, "NX", "PX", LOCK_MS):
        if time.monotonic() > until:
            raise FrontierError("others create jobs of the same tenant: try again.")
        await pause(0.02)
    try:
        await check_new_job(server, job)
        yield
    finally:
        if await server.command("GET", LOCK) == me.encode():
            await server.command("DEL", LOCK)


# --- pages and pushes -----------------------------------------------------------------------------


class Granted(NamedTuple):
    """How many pages may begin, of which day's quota, and when the next day begins."""

    pages: int
    day: int = 0
    tomorrow_in_s: float = 0.0


@dataclass(slots=True)
class Quotas:
    """The quotas that one job keeps with others, as a process that leases or adds sees them. A job
    without any costs a look every FRESH_S."""

    server: Server
    job: str
    by_day: list[tuple[str, int]] = field(default_factory=list)  # tenant, pages
    by_pending: list[Tenant] = field(default_factory=list)
    _read_at: float = -math.inf
    clock: Callable[[], int] | None = None
    _shard: Shard | None = None

    async def refresh(self) -> None:
        """Read them, if they were not read lately."""
        if time.monotonic() - self._read_at < FRESH_S:
            return
        mine = [tenant for tenant in await list_tenants(self.server) if tenant.has(self.job)]
        self.by_day = [
            (tenant.jobs, tenant.max_pages_per_day) for tenant in mine if tenant.max_pages_per_day
        ]
        self.by_pending = [tenant for tenant in mine if tenant.max_pending is not None]
        self._read_at = time.monotonic()

    async def take(self, wanted: int) -> Granted:
        """Pages that may begin today."""
        return await self._call(wanted, 0, 0)

    async def give_back(self, unused: int, day: int) -> None:
        if unused:
            await self._call(0, unused, day)

    async def returned(self, leases: Iterable[Lease]) -> None:
        """Give back the pages of unused leases, each to the day on which it was taken: the second
        is at the end of its token (lua/lease.lua)."""
        days = Counter(
            int(found[1]) * 1000 // DAY_MS
            for lease in leases
            if (found := TAKEN.search(lease.token))
        )
        for day, unused in days.items():
            await self.give_back(unused, day)

    async def _call(self, wanted: int, back: int, day: int) -> Granted:
        pages, today, ms = await self._fleet().quota(
            self.by_day, wanted=wanted, back=back, of_day=day
        )
        return Granted(pages, today, ms / 1000)

    def _fleet(self) -> Shard:
        if self._shard is None:
            self._shard = Shard(self.server, ShardKeys(RUNS, 0), client_name(), self.clock)
        return self._shard

    async def room(self, wanted: int) -> int:
        """Reserve room for as many of so many requests as may be added."""
        reserved: list[Tenant] = []
        for tenant in self.by_pending:
            most = await self._reserve(tenant, wanted)
            await self._return(reserved, wanted - most)
            reserved.append(tenant)
            wanted = most
        return wanted

    async def were_known(self, number: int) -> None:
        """So many of those that had room were not new."""
        await self._return(self.by_pending, number)

    async def _return(self, tenants: Sequence[Tenant], number: int) -> None:
        for tenant in tenants if number else ():
            await self._reserve(tenant, -number)

    async def _reserve(self, one: Tenant, wanted: int) -> int:
        reserve = partial(
            self._fleet().reserve,
            tenant=one.jobs,
            limit=one.max_pending or 0,
            wanted=wanted,
            fresh_ms=int(1000 * COUNTED_S),
        )
        found, ms = await reserve(counted=-1, asked_ms=0)
        if wanted > 0 > found:
            waiting = await _count_pending(self.server, one)
            found, _ = await reserve(counted=max(0, waiting), asked_ms=ms)
        return found

    async def fullest(self) -> QuotaUse | None:
        """Which quota has the least room for a push."""
        uses = await uses_of(
            self.server,
            [
                Tenant(jobs=tenant.jobs, max_pending=tenant.max_pending)
                for tenant in self.by_pending
            ],
        )
        return min(uses, key=lambda use: use.limit - use.used, default=None)


def day_notes(uses: Sequence[QuotaUse]) -> list[str]:
    """Say that a day's quota is used up. Pure."""
    return [
        f"the jobs {use.tenant} have begun the {use.limit:,} pages that their quota gives them a "
        f"day: they go on at 00:00 UTC, or with `{use.raise_it}`"
        for use in uses
        if use.quota == "max_pages_per_day" and use.is_reached
    ]
