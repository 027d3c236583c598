"""robots.txt, fetched once per host for the whole fleet and kept here until it expires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier

#: How long one worker may fetch it; if that one dies, others wait no longer than this.
CLAIM_MS: Final = 60_000
#: Trouble that is no longer believed still tells when it began: RFC 9309 2.3.1.4 counts 30 days,
#: and we ask once a day in the end.
KEEP_S: Final = 40 * 86_400.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What the fleet has of a host's robots.txt."""

    rules: bytes = b""  # the last answer; empty: there was none
    left_s: float = 0.0  # how long to believe it
    is_ours: bool = False  # it has expired, and we fetch it

    @property
    def is_known(self) -> bool:
        return self.left_s > 0


async def ask_robots(frontier: Frontier, host: str) -> Shared:
    """What the fleet knows. If it is nothing, the first who asks is the one who fetches it."""
    what, rules, left_ms = await _call(frontier, host, ttl_ms=CLAIM_MS, keep_s=KEEP_S)
    return Shared(rules, left_ms / 1000, is_ours=what == b"yours")


async def stored_robots(frontier: Frontier, host: str) -> bytes:
    """The last answer, for people; empty: there is none any more."""
    key = frontier.shard_for(host).keys.key("robots", host)
    stored: bytes | None = await frontier.server.command("GET", key)
    return (stored or b"").partition(b" ")[2].partition(b" ")[2]


async def store_robots(
    frontier: Frontier, host: str, rules: bytes, *, ttl_s: float, keep_s: float = 0.0
) -> None:
    """Share it with the fleet, to be believed for `ttl_s` seconds and remembered for longer."""
    await _call(frontier, host, rules=rules, ttl_ms=ms(ttl_s), keep_s=keep_s)


async def _call(
    frontier: Frontier, host: str, *, ttl_ms: int, keep_s: float, rules: bytes = b""
) -> Any:
    shard = frontier.shard_for(host)
    # To bring rules is refused by a full server; to ask for them is not.
    return await shard.robots(
        strict=bool(rules), name=host, rules=rules, ttl_ms=ttl_ms, keep_ms=ms(keep_s)
    )
