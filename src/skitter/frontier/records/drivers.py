"""State that other engines, Celery and Scrapy, keep on the server."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from skitter.frontier.control import write_control
from skitter.frontier.seen import ExactSet
from skitter.frontier.sites.snapshots import each_request
from skitter.frontier.transport.keys import PUMP_SECRET, PUMP_SLOTS, PUMPED, ShardKeys
from skitter.frontier.transport.messages import ms
from skitter.frontier.transport.scripts import Code

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.seen import Bucket
    from skitter.frontier.sites.snapshots import RequestFacts
    from skitter.frontier.transport.connection import Server
    from skitter.model import Lane


@dataclass(frozen=True, slots=True)
class Registry:
    """Records of an engine: name -> bytes. Not trusted: others can write to the server."""

    server: Server
    key: str

    async def get(self, name: str) -> bytes | None:
        found: bytes | None = await self.server.command("HGET", self.key, name)
        return found

    async def all(self) -> dict[str, bytes]:
        found = await self.server.command("HGETALL", self.key)
        return {name.decode("utf-8", "replace"): value for name, value in found.items()}

    async def put(self, name: str, value: bytes) -> None:
        await self.server.command("HSET", self.key, name, value)

    async def put_new(self, name: str, value: bytes) -> None:
        """Store it unless the name is taken."""
        await self.server.command("HSETNX", self.key, name, value)

    async def remove(self, name: str) -> None:
        await self.server.command("HDEL", self.key, name)


def pumped_jobs(server: Server) -> Registry:
    """The jobs that pumps work on, and what they must know about each."""
    return Registry(server, PUMPED)


def pump_slots(server: Server) -> Registry:
    """The machines that run pumps, and how many each can run at a time."""
    return Registry(server, PUMP_SLOTS)


async def pump_secret(server: Server) -> bytes:
    """A key that is made when first needed. Those who can only add requests, over HTTP or to a
    feed, do not know it."""
    made = secrets.token_hex(32).encode()
    found: bytes | None = await server.command("SET", PUMP_SECRET, made, "NX", "GET", get=True)
    return found or made


def lane_of(permit: str) -> Lane:
    """Which pages the permit's pump fetches, in a job with separate pumps per lane."""
    return "browser" if permit.startswith("browser-") else ""


async def issue_permits(
    frontier: Frontier, wanted: int, *, ttl_s: float, lane: Lane = ""
) -> list[str]:
    """Issue the permits that are missing in that lane, and void those beyond `wanted`.

    An engine may lose a message, or deliver it twice or much later. So each message to a pump
    carries a permit, and the server knows which permits are valid: a pump without a valid one
    stops, and a permit that is not renewed is replaced.
    """
    prefix = f"{lane}-" if lane else ""
    fresh = [prefix + secrets.token_hex(6) for _ in range(wanted)]
    issued = await frontier.home.issue_permits(fresh, wanted=wanted, ttl_ms=ms(ttl_s), lane=lane)
    return [permit.decode() for permit in issued]


async def renew_permit(frontier: Frontier, permit: str, *, ttl_s: float) -> bool:
    """Extend a permit to `ttl_s` from now. False: it is void."""
    [good] = await frontier.home.renew_permits([permit], ttl_ms=ms(ttl_s))
    return bool(good)


async def return_permit(frontier: Frontier, permit: str) -> None:
    """Give a permit back when its pump has ended."""
    await frontier.home.command("ZREM", "permits", permit)


async def count_permits(server: Server, jobs: Iterable[str]) -> dict[str, int]:
    """How many valid permits each job has."""
    seconds, micros = await server.command("TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    keys = {job: ShardKeys(job, 0).key("permits") for job in jobs}
    return {job: await server.command("ZCOUNT", key, now_ms, "+inf") for job, key in keys.items()}


async def void_permits(frontier: Frontier) -> None:
    """Make all pumps of the job stop."""
    await frontier.home.command("DEL", "permits")


class Turn(StrEnum):
    """Who is to run the callback."""

    WAIT = "wait"  # the job is not finished
    HELD = "held"  # another process is running it
    YOURS = "yours"
    DONE = "done"


class Claimed(NamedTuple):
    """The answer to a claim; `value` is the result of a callback that has run."""

    turn: Turn
    value: bytes


async def claim_callback(frontier: Frontier, claim: str, *, ttl_s: float) -> Claimed:
    """Claim the job's callback for `ttl_s`, or extend an earlier claim of the same name.

    It runs once when the job is finished, even if processes die. Checking that the job is finished
    and claiming the callback is one step on the server. Only the process that still holds the claim
    may store the result, so everyone sees the same one. Only the first shard is checked: with
    several, look at `stats` first.
    """
    turn, value = await frontier.home.claim_callback(claim=claim, ttl_ms=ms(ttl_s))
    return Claimed(Turn(turn.decode()), value)


async def finish_callback(frontier: Frontier, claim: str, value: bytes) -> bool:
    """Store its result. False: another process took over, and this result is dropped."""
    return bool(await frontier.home.finish_callback(claim=claim, value=value))


async def reset_callback(frontier: Frontier) -> None:
    """Let it run again, for a job that goes on and will finish again."""
    await frontier.home.command("DEL", "callback")


async def set_adopted(frontier: Frontier) -> None:
    """The job's fingerprints come from scrapy-redis: its nodes keep computing them the same way."""
    await write_control(frontier, {"adopted": 1})


async def is_adopted(frontier: Frontier) -> bool:
    return bool(await frontier.home.command("HGET", "control", "adopted"))


async def adopt_seen(frontier: Frontier, fingerprints: Sequence[str]) -> int:
    """Mark requests that were done elsewhere as seen. Returns how many were new.

    All go to the first shard: a Scrapy job has no other.
    """
    return (await frontier.home.adopt(fingerprints)).count(Code.NEW)


async def start_run(frontier: Frontier, number: int) -> None:
    await frontier.home.command("HSET", "stats", "run", number)


async def read_run(frontier: Frontier) -> int:
    """0 before the first run."""
    return int(await frontier.home.command("HGET", "stats", "run") or 0)


async def note_spider(frontier: Frontier, name: str, *, begins: bool) -> str:
    """The spider whose methods the job's requests name: the one that began this run."""
    set_it = "HSET" if begins else "HSETNX"
    await frontier.home.command(set_it, "control", "spider", name)
    return await spider_of(frontier)


async def spider_of(frontier: Frontier) -> str:
    """Of a job of Scrapy nodes; empty for others."""
    return (await frontier.home.command("HGET", "control", "spider") or b"").decode()


# --- what an engine asks of a job that it takes back, or that is idle ----------------------------


async def release_phase(frontier: Frontier) -> int:
    """How far a job has been given back to its engine; 0: it has not."""
    return int(await frontier.home.command("HGET", "control", "released") or 0)


async def batches_on_their_way(frontier: Frontier) -> int:
    """Of messages of a feed that are not in the frontier yet."""
    return int(await frontier.home.command("HLEN", "feeding"))


def seen_buckets(frontier: Frontier) -> AsyncIterator[Bucket]:
    """The whole seen-set of a job of one shard."""
    return ExactSet().scan(frontier.home)


def all_requests(frontier: Frontier) -> AsyncIterator[list[RequestFacts]]:
    """Those that have a record, of a job of one shard."""
    return each_request(frontier.home)


async def signs_of_work(frontier: Frontier) -> Any:
    """What changes when there is something to lease, once the whole fleet is idle: two small
    commands in place of two scripts."""
    return (
        await frontier.home.command("HMGET", "stats", "ticket", "seen"),
        await frontier.home.command("HMGET", "control", "state", "born"),
    )
