"""robots.txt, fetched once per host for the whole fleet and kept here until it expires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.urls import shard_of

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

CLAIM_MS = 60_000
_CLAIMED = b""  # somebody is fetching it


async def read_robots(frontier: Frontier, host: str) -> bytes | None:
    """What the fleet knows; empty while somebody fetches it; None if nobody has."""
    shard = frontier.shards[shard_of(host, len(frontier.shards))]
    known: bytes | None = await shard.server.command("GET", shard.keys.key("robots", host))
    return known


async def claim_robots(frontier: Frontier, host: str) -> bool:
    """Say that we fetch it. False: somebody else does. The claim of a dead worker expires."""
    return await _set(frontier, host, _CLAIMED, CLAIM_MS)


async def store_robots(frontier: Frontier, host: str, rules: bytes, *, ttl_s: float) -> None:
    """Share it with the fleet for `ttl_s` seconds."""
    await _set(frontier, host, rules, round(ttl_s * 1000))


async def _set(frontier: Frontier, host: str, rules: bytes, ttl_ms: int) -> bool:
    shard = frontier.shards[shard_of(host, len(frontier.shards))]
    return bool(await shard.call("robots", strict=True, name=host, rules=rules, ttl_ms=ttl_ms))
