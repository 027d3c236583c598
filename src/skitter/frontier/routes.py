"""What the fleet knows about routes: places on limited ones, counts, and results.

It belongs to no job: all crawls share what each has spent and learned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from skitter.frontier.client import client_name
from skitter.frontier.keys import FLEET, ShardKeys
from skitter.frontier.scan import scan_keys
from skitter.frontier.shard import Shard
from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skitter.frontier.connection import Server

Verdict = Literal["good", "ban", "page", "fault", "unused"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The result of one request through a route."""

    place: str = ""  # empty: the route has no limits
    route: str
    domain: str
    verdict: Verdict
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


@dataclass(slots=True)
class FleetRoutes:
    """The routes of a server, for one client."""

    shard: Shard

    @classmethod
    def on(cls, server: Server, *, clock: Callable[[], int] | None = None) -> Self:
        return cls(Shard(server, ShardKeys(FLEET, 0), client_name(), clock))

    async def take(
        self, place: str, route: str, limits: RouteLimits, reserve: Cost, *, ttl_s: float
    ) -> int:
        """Take a place. 0: go. -1: its budget is spent. Else the ms after which to ask again."""
        limits_row = " ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in limits)
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
