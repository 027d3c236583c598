"""Browser sessions that were logged out before they expired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.frontier.keys import LOGOUTS
from skitter.frontier.wire import with_scores

if TYPE_CHECKING:
    from skitter.frontier.connection import Server

#: Beyond that, those that expire soonest are dropped.
MAX_LOGOUTS = 10_000


async def note_logout(server: Server, session: str, *, until: int, now: int) -> None:
    """Record a logout, for as long as the session would have lasted."""
    await server.command("ZADD", LOGOUTS, until, session)
    await server.command("ZREMRANGEBYSCORE", LOGOUTS, "-inf", now)
    await server.command("ZREMRANGEBYRANK", LOGOUTS, 0, -MAX_LOGOUTS - 1)


async def list_logouts(server: Server) -> dict[str, float]:
    """Logged-out sessions, and when they would have expired."""
    found = with_scores(await server.command("ZRANGE", LOGOUTS, 0, -1, "WITHSCORES"))
    return {session.decode(errors="replace"): float(until) for session, until in found}
