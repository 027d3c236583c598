"""Which jobs Celery works on, and what its pumps have to know about each.

A message names a job and a ticket; everything else is read here, on the frontier's server. So a
message is small, and stays true however late it comes.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from skitter.frontier.keys import PUMPED
from skitter.frontier.tickets import count_tickets

if TYPE_CHECKING:
    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats

#: How soon the URLs of a process that was killed come back. Pages that take longer are extended.
LEASE_S = 60.0
Kind = Literal["crawl", "pages", "scrape", "map"]


class Charge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job in Celery's care."""

    job: str
    #: crawl: a spider follows its links. pages: only these pages. scrape: what comes of each page
    #: goes to the task that asked for it. map: to a reducer, when all are there.
    kind: Kind = "crawl"
    target: str = ""  # the spider's file or module; empty: the default one
    browser: bool = False
    pumps: int | None = None  # None: as many as the work is worth
    concurrency: int = 64  # pages at a time, per pump
    lease_s: float = LEASE_S
    obey_robots: bool = True
    allow: tuple[str, ...] = ()  # private hosts that may be fetched
    out: str = ""  # where pumps load items; empty: somebody else does, or nobody
    hooks: bool = False  # the spider has some for the end, and nobody else runs them
    reducer: dict[str, Any] | None = None  # a Celery signature
    context: dict[str, Any] | None = None  # of the task that waits for the reducer
    #: Sets a crawl apart from an earlier one of the same name: what a process remembers of that
    #: one (links, robots.txt) is not true of this.
    mark: str = msgspec.field(default_factory=lambda: secrets.token_hex(4))


def has_finale(charge: Charge) -> bool:
    """Whether something is to run once, when it is over."""
    return charge.hooks or charge.reducer is not None


async def take_charge(server: Server, charge: Charge) -> None:
    """Have pumps for the job from now on. Its URLs must be in the frontier before: see let_go."""
    await server.command("HSET", PUMPED, charge.job, msgspec.json.encode(charge))


async def take_charge_once(server: Server, charge: Charge) -> Charge:
    """The same for a job that many callers share: the first one's charge holds."""
    await server.command("HSETNX", PUMPED, charge.job, msgspec.json.encode(charge))
    return await read_charge(server, charge.job) or charge


async def read_charge(server: Server, job: str) -> Charge | None:
    raw = await server.command("HGET", PUMPED, job)
    return msgspec.json.decode(raw, type=Charge) if raw else None


async def read_charges(server: Server) -> list[Charge]:
    raw = await server.command("HGETALL", PUMPED)
    return [msgspec.json.decode(value, type=Charge) for value in raw.values()]


async def count_pumps(server: Server) -> dict[str, int]:
    """How many pumps each job has, at work or on their way."""
    jobs = await server.command("HKEYS", PUMPED)
    return await count_tickets(server, [job.decode() for job in jobs])


async def drop_charge(server: Server, job: str) -> None:
    await server.command("HDEL", PUMPED, job)


async def let_go(frontier: Frontier, charge: Charge) -> None:
    """It is over. Whoever adds URLs takes charge afterwards, so if some came meanwhile, either
    they are seen here or their charge comes after this."""
    server = frontier.shards[0].server
    await drop_charge(server, charge.job)
    if not is_over(charge, await frontier.stats()):
        await take_charge(server, charge)


def is_over(charge: Charge, stats: Stats) -> bool:
    """Nothing pending, delayed, leased, fed, unloaded or undelivered."""
    if not stats.crawled:
        return False
    if charge.kind == "scrape" and (stats.items or stats.dead):
        return False
    return not (charge.out and stats.items)
