"""robots.txt, fetched once per host for the whole fleet and stored until it expires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

#: How long one worker may take to fetch it; if it dies, others wait no longer than this.
CLAIM_MS: Final = 60_000
#: An expired failure still says when the trouble began: RFC 9309 2.3.1.4 counts 30 days, and in the
#: end we ask once a day.
KEEP_S: Final = 40 * 86_400.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What the fleet knows of a host's robots.txt."""

    rules: bytes = b""  # the last answer; empty: there was none
    left_s: float = 0.0  # how long it remains valid
    is_ours: bool = False  # it has expired, and we are to fetch it

    @property
    def is_known(self) -> bool:
        return self.left_s > 0


async def ask_robots(frontier: Frontier, host: str) -> Shared:
    """What the fleet knows. If nothing is known, the first to ask is the one to fetch it."""
    what, rules, left_ms = await _call(frontier, host, ttl_ms=CLAIM_MS, keep_s=KEEP_S)
    return Shared(rules, left_ms / 1000, is_ours=what == b"yours")


async def stored_robots(frontier: Frontier, host: str) -> bytes:
    """The last answer, to show to people; empty: none is stored."""
    key = frontier.shard_for(host).keys.key("robots", host)
    stored: bytes | None = await frontier.server.command("GET", key)
    return (stored or b"").partition(b" ")[2].partition(b" ")[2]


async def store_robots(
    frontier: Frontier, host: str, rules: bytes, *, ttl_s: float, keep_s: float = 0.0
) -> None:
    """Share it with the fleet: valid for `ttl_s` seconds, and stored for longer."""
    await _call(frontier, host, rules=rules, ttl_ms=ms(ttl_s), keep_s=keep_s)


async def _call(
    frontier: Frontier, host: str, *, ttl_ms: int, keep_s: float, rules: bytes = b""
) -> Any:
    shard = frontier.shard_for(host)
    # A full server refuses to store rules, but still answers questions.
    return await shard.robots(
        strict=bool(rules), name=host, rules=rules, ttl_ms=ttl_ms, keep_ms=ms(keep_s)
    )
