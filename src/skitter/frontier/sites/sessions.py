"""Sessions of sites, and routes to them: what the fleet shares."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

import msgspec

from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.keys import FLEET, ShardKeys
from skitter.frontier.transport.messages import cut, decode, encode, ms, side_by_side
from skitter.frontier.transport.shard import Shard, scan_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server
    from skitter.model import SessionNews
    from skitter.settings import SessionPool


#: How long one worker may take to log in; if it dies, others wait no longer than this.
CLAIM_S: Final = 60.0
#: The pause after a failed log-in; it doubles with each failure, up to an hour.
LOGIN_REST_S: Final = 10.0


class LiveSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a pool, without its contents."""

    site: str
    kind: str  # its class; empty: that of plain requests
    number: int
    made_at: float
    uses: int
    errors: float


class _Pool(msgspec.Struct, frozen=True):
    """What lua/lib/session.lua packs."""

    last: int = 0
    live: list[tuple[float, float, float, float]] = []


async def live_sessions(frontier: Frontier, limit: int) -> list[LiveSession]:
    """The job's sessions, sorted by site; at most `limit`, the first found."""
    found: list[LiveSession] = []
    for shard in frontier.shards:
        if not await shard.command("EXISTS", "sessions"):
            continue
        async for keys in scan_keys(shard):
            for key in keys:
                name, pool = shard.keys.name_of(key) or ("", None)
                if name == "pool":
                    found += _sessions_of(pool or "", await shard.server.command("GET", key))
            if len(found) >= limit:
                break
    return sorted(found, key=lambda session: (session.site, session.kind, session.number))[:limit]


def _sessions_of(name: str, packed: bytes | None) -> list[LiveSession]:
    try:
        live = msgspec.convert(decode(packed or b""), _Pool).live
    except ValueError:  # it expired, or another program wrote it
        return []
    site, _, kind = name.partition("/")
    return [
        LiveSession(
            site=site,
            kind=kind,
            number=int(number),
            made_at=made_ms / 1000,
            uses=int(uses),
            errors=errors,
        )
        for number, made_ms, uses, errors in live
        if all(map(math.isfinite, (number, made_ms, uses, errors)))
    ]


class Wanted(NamedTuple):
    """A session that a request needs."""

    host: str  # of its lease
    name: str  # site/class
    make: bool  # if there is none
    known: str = ""  # `number version` of what we have


class Opened(NamedTuple):
    """A session as stored on the server."""

    number: int  # 0: there is none
    version: int
    errors: float
    fields: dict[str, bytes]  # empty: no change to what we have


class Claimed(NamedTuple):
    """Whether a session is logged in, or who is to do it."""

    what: Literal["in", "busy", "rest", "gone", "yours"]
    number: int  # `in`: how often it was logged in so far; `rest`: milliseconds
    reason: str


async def open_sessions(
    frontier: Frontier, wanted: Sequence[Wanted], limits: SessionPool
) -> list[Opened]:
    """Open a session for each, in order, with one call per shard. What attempts learn about them is
    sent when their leases end (`SessionNews`)."""
    by_shard: dict[int, list[int]] = {}
    for i, one in enumerate(wanted):
        by_shard.setdefault(frontier.shard_for(one.host).keys.shard, []).append(i)
    answers = await side_by_side(
        frontier.shards[shard].open_sessions(
            [(wanted[i].name, int(wanted[i].make), wanted[i].known) for i in rows],
            size=limits.size,
            uses=-1 if limits.max_uses is None else limits.max_uses,
            errors=limits.max_errors,
            age_ms=-1 if limits.max_age_s is None else ms(limits.max_age_s),
            chance=random.randrange(2**20),
        )
        for shard, rows in by_shard.items()
    )
    opened: dict[int, Opened] = {}
    for rows, answer in zip(by_shard.values(), answers, strict=True):
        opened.update(zip(rows, map(_open, answer), strict=True))
    return [opened[i] for i in range(len(wanted))]


def _open(row: Any) -> Opened:
    number, version, errors, flat = row
    names = [name.decode("utf-8", "replace") for name in flat[::2]]
    return Opened(number, version, float(errors), dict(zip(names, flat[1::2], strict=True)))


async def note_sessions(frontier: Frontier, news: Sequence[tuple[str, SessionNews]]) -> None:
    """Store what was learned without the end of a lease; each with its host."""
    by_shard: dict[int, list[bytes]] = {}
    for host, session in news:
        by_shard.setdefault(frontier.shard_for(host).keys.shard, []).append(encode(session))
    await side_by_side(
        frontier.shards[shard].note_sessions(rows) for shard, rows in by_shard.items()
    )


class Key(NamedTuple):
    """Which session, and where it is."""

    host: str  # of its lease
    name: str
    number: int


async def claim_login(frontier: Frontier, key: Key, *, claim: str) -> Claimed:
    """Ask for the right to log a session in."""
    what, count, reason = await frontier.shard_for(key.host).claim_login(
        name=key.name, number=key.number, claim=claim, ttl_ms=ms(CLAIM_S)
    )
    return Claimed(what.decode(), count, reason.decode("utf-8", "replace"))


async def end_login(
    frontier: Frontier,
    key: Key,
    *,
    claim: str,
    fields: Mapping[str, str] | None = None,
    reason: str = "",
    rest_s: float | None = None,
) -> int:
    """Store the result of a log-in, or why it failed. Returns how often the session was logged in;
    0: this log-in failed, or another worker has taken over."""
    return await frontier.shard_for(key.host).end_login(
        list((fields or {}).items()),
        name=key.name,
        number=key.number,
        claim=claim,
        reason=cut(reason),
        rest_ms=ms(LOGIN_REST_S if rest_s is None else rest_s),
    )


RouteVerdict = Literal["good", "ban", "page", "fault", "unused"]
NO_LIMIT = -1


class RouteLimits(NamedTuple):
    """Limits for the whole fleet; money in millionths."""

    in_flight: int = NO_LIMIT
    gap_ms: float = NO_LIMIT
    requests: int = NO_LIMIT
    bytes: int = NO_LIMIT
    money: int = NO_LIMIT


class Cost(NamedTuple):
    """What a request cost, or may cost at most."""

    bytes: int = 0
    money: int = 0  # in millionths


FREE = Cost()
_PURSE = "job "
#: What take_routes.lua notes of a route.
_TAKEN = ("sent", "bytes", "money")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The result of one request through a route."""

    place: str = ""  # empty: the route has no limits
    route: str
    domain: str
    verdict: RouteVerdict
    cost: Cost = FREE
    reserved: Cost = FREE
    seconds: float = 0.0

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        figures = (*self.cost, *self.reserved, round(1000 * self.seconds))
        return self.place, self.route, self.domain, self.verdict, " ".join(map(str, figures))


@dataclass(frozen=True, slots=True)
class Known:
    """What the fleet knows at one moment."""

    now_ms: int
    routes: dict[str, dict[str, float]] = field(default_factory=dict)  # by route: sent, money, ...
    domains: dict[str, bytes] = field(default_factory=dict)  # by domain: msgpack of Arms


def purse_of(job: str) -> str:
    """The name of a route that stands for the money of a job. No real one has a space in it."""
    return f"{_PURSE}{job}"


def is_purse(route: str) -> bool:
    return route.startswith(_PURSE)


@dataclass(slots=True)
class FleetRoutes:
    """The routes of a server, for one client: places on limited ones, counts, and results.

    They belong to no job: all crawls share what each has spent and learned.
    """

    shard: Shard

    @classmethod
    def on(cls, server: Server, *, clock: Callable[[], int] | None = None) -> Self:
        return cls(Shard(server, ShardKeys(FLEET, 0), client_name(), clock))

    async def take(
        self, place: str, route: str, limits: RouteLimits, reserve: Cost, *, ttl_s: float
    ) -> int:
        """Take a place. 0: go. -1: its budget is spent. Else the ms after which to ask again."""
        limits_row = " ".join(
            f"{limit:g}" if isinstance(limit, float) else str(limit) for limit in limits
        )
        row = (place, route, limits_row, f"{reserve.bytes} {reserve.money}")
        [answer] = await self.shard.take_routes([row], ttl_ms=ms(ttl_s))
        return int(answer)

    async def settle(self, settled: Sequence[Settled] = (), *, domain: str = "") -> Known:
        """Count results. Returns what is known about their domains, and about `domain`."""
        now, flat, *pairs = await self.shard.settle_routes(
            [one.row for one in settled], domain=domain
        )
        names = [name.decode("utf-8", "replace") for name in pairs[::2]]
        return Known(int(now), _routes(flat), dict(zip(names, pairs[1::2], strict=True)))

    async def domains(self) -> list[str]:
        """The domains that something is known about, sorted."""
        keys, found = self.shard.keys, set[str]()
        async for batch in scan_keys(self.shard):
            known = map(keys.name_of, batch)
            found |= {one[1] or "" for one in known if one and one[0] == "arms"}
        return sorted(found)

    async def empty_purse(self, job: str) -> None:
        """Forget what the job has spent."""
        name = purse_of(job)
        await self.shard.command("HDEL", "routes", *(f"{name}:{one}" for one in _TAKEN))
        await self.shard.server.command("UNLINK", self.shard.keys.key("flights", name))

    async def forget(self, routes: Iterable[str] = ()) -> None:
        """Forget what these routes have spent; without names, all that was spent and learned."""
        if names := list(routes):
            known = await self.settle()
            fields = [f"{name}:{one}" for name in names for one in known.routes.get(name, {})]
            if fields:
                await self.shard.command("HDEL", "routes", *fields)
            return
        async for batch in scan_keys(self.shard):
            await self.shard.server.command("UNLINK", *batch)


def _routes(flat: list[bytes]) -> dict[str, dict[str, float]]:
    """From `route:field`, number, ...; skips invalid numbers, as others can write to the server."""
    found: dict[str, dict[str, float]] = {}
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        route, _, what = name.decode("utf-8", "replace").rpartition(":")
        try:
            found.setdefault(route, {})[what] = float(value)
        except ValueError:
            continue
    return found
