"""Which jobs Celery works on, and what its pumps have to know about each.

A message names a job and a ticket; everything else is read here, on the frontier's server. So a
message is small, and stays true however late it comes.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from skitter.errors import TooBig, UsageError
from skitter.fetch.options import MAX_BODY_BYTES
from skitter.frontier.admin.permits import count_tickets
from skitter.frontier.keys import PUMPED
from skitter.settings import check_job_name, check_number

if TYPE_CHECKING:
    from skitter.celery.secret import Secret
    from skitter.frontier.connection import Server
    from skitter.frontier.frontier import Frontier
    from skitter.model import Stats

#: How soon the URLs of a process that was killed come back. Pages that take longer are extended.
LEASE_S = 60.0
Kind = Literal["crawl", "pages", "scrape", "map"]
#: Of what the server holds about a job; the largest part is the message of a map_reduce.
MAX_CHARGE_BYTES = 2**20
MOST_PUMPS, MOST_PAGES_AT_A_TIME, MOST_HOSTS = 1000, 10_000, 1000
MOST_PAGE_BYTES = 2**40


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
    max_page_bytes: int = MAX_BODY_BYTES
    #: The name of the output that pumps load items into, or a file; empty: somebody else loads
    #: them, or nobody. Never an address: it would hold a password.
    out: str = ""
    hooks: bool = False  # the spider has some for the end, and nobody else runs them
    reducer: dict[str, Any] | None = None  # a Celery signature
    context: dict[str, Any] | None = None  # of the task that waits for the reducer
    #: Sets a crawl apart from an earlier one of the same name: what a process remembers of that
    #: one (links, robots.txt) is not true of this.
    mark: str = msgspec.field(default_factory=lambda: secrets.token_hex(4))
    signature: str = ""  # of whoever had the secret; see allowed.py for what it is good for


def has_finale(charge: Charge) -> bool:
    """Whether something is to run once, when it is over."""
    return charge.hooks or charge.reducer is not None


def signed(charge: Charge, secret: Secret | None) -> Charge:
    """The same, for all workers that have this secret."""
    signature = secret.sign("charge", charge.job, _unsigned(charge)) if secret else ""
    return msgspec.structs.replace(charge, signature=signature)


def is_signed(charge: Charge, secret: Secret | None) -> bool:
    if secret is None:
        return False
    return secret.has_signed(charge.signature, "charge", charge.job, _unsigned(charge))


def _unsigned(charge: Charge) -> Charge:
    return msgspec.structs.replace(charge, signature="")


async def take_charge(server: Server, charge: Charge) -> None:
    """Have pumps for the job from now on. Its URLs must be in the frontier before: see let_go."""
    await server.command("HSET", PUMPED, charge.job, _packed(charge))


async def take_charge_once(server: Server, charge: Charge, secret: Secret | None) -> Charge:
    """The same for a job that many callers share: the first one's charge holds, unless nobody who
    has our secret made it."""
    await server.command("HSETNX", PUMPED, charge.job, _packed(charge))
    held = await read_charge(server, charge.job)
    if held is None or (secret and not is_signed(held, secret)):
        await take_charge(server, charge)
        return charge
    return held


def _packed(charge: Charge) -> bytes:
    """Raises TooBig for what nobody would read."""
    raw = msgspec.json.encode(charge)
    if len(raw) > MAX_CHARGE_BYTES:
        what = f"what workers have to know about {charge.job}"
        raise TooBig(what, size_bytes=len(raw), limit_bytes=MAX_CHARGE_BYTES)
    return raw


async def read_charge(server: Server, job: str) -> Charge | None:
    """None: nobody is in charge of it, or what is there makes no sense."""
    raw = await server.command("HGET", PUMPED, job)
    return open_charge(job, raw) if raw else None


async def read_charges(server: Server) -> list[Charge]:
    raw = await server.command("HGETALL", PUMPED)
    found = (open_charge(job.decode("utf-8", "replace"), value) for job, value in raw.items())
    return [charge for charge in found if charge]


def open_charge(job: str, raw: bytes) -> Charge | None:
    """What the server holds, within bounds: anybody may have written it. Not the charge of another
    job."""
    if len(raw) > MAX_CHARGE_BYTES:
        return None
    with suppress(msgspec.MsgspecError, UsageError, UnicodeDecodeError):
        charge = msgspec.json.decode(raw, type=Charge)
        check_job_name(charge.job)
        if charge.pumps is not None:
            check_number("pumps", charge.pumps, low=0, high=MOST_PUMPS)
        check_number("concurrency", charge.concurrency, low=1, high=MOST_PAGES_AT_A_TIME)
        check_number("lease_s", charge.lease_s, low=1, high=3600)
        check_number("max_page_bytes", charge.max_page_bytes, low=0, high=MOST_PAGE_BYTES)
        check_number("allow", len(charge.allow), low=0, high=MOST_HOSTS)
        return charge if charge.job == job else None
    return None


async def count_pumps(server: Server) -> dict[str, int]:
    """How many pumps each job has, at work or on their way."""
    jobs = await server.command("HKEYS", PUMPED)
    return await count_tickets(server, [job.decode("utf-8", "replace") for job in jobs])


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
