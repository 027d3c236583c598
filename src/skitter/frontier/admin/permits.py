"""Tickets: how many pumps of an outside engine work on a job, whatever became of its messages.

An engine such as Celery may lose a message, deliver it twice or much later. So its messages carry
a ticket, and the server knows which tickets are good: a pump without a good one goes home, and a
ticket that nobody renews is replaced.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from skitter.frontier.keys import ShardKeys
from skitter.frontier.wire import ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier


async def issue_tickets(frontier: Frontier, wanted: int, *, ttl_s: float) -> list[str]:
    """New tickets, as many as are missing; those over `wanted` are taken back."""
    fresh = [secrets.token_hex(6) for _ in range(wanted)]
    shard = frontier.shards[0]
    issued = await shard.call("issue", fresh, wanted=wanted, ttl_ms=ms(ttl_s))
    return [ticket.decode() for ticket in issued]


async def renew_ticket(frontier: Frontier, ticket: str, *, ttl_s: float) -> bool:
    """Keep a ticket for so long from now. False: it is void."""
    [good] = await frontier.shards[0].call("renew", [ticket], ttl_ms=ms(ttl_s))
    return bool(good)


async def return_ticket(frontier: Frontier, ticket: str) -> None:
    """Its pump has ended."""
    shard = frontier.shards[0]
    await shard.server.command("ZREM", shard.keys.key("tickets"), ticket)


async def count_tickets(server: Server, jobs: Iterable[str]) -> dict[str, int]:
    """How many tickets of each job are good."""
    seconds, micros = await server.command("TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    keys = {job: ShardKeys(job, 0).key("tickets") for job in jobs}
    return {job: await server.command("ZCOUNT", key, now_ms, "+inf") for job, key in keys.items()}


async def void_tickets(frontier: Frontier) -> None:
    """All pumps of the job shall stop."""
    shard = frontier.shards[0]
    await shard.server.command("DEL", shard.keys.key("tickets"))
