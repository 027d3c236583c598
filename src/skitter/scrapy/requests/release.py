"""The way back: writes a job's queue and seen-set as scrapy-redis reads them.

Both are written under other names first, and renamed when they are whole: an interrupted release
gives scrapy-redis nothing, and is simply run again. The job keeps what it has, and rests.
"""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from skitter.engine.leases import find_dead
from skitter.errors import InfrastructureError, UsageError
from skitter.frontier.control import set_state, write_control
from skitter.frontier.jobs import is_fed, open_job
from skitter.frontier.records.drivers import (
    all_requests,
    batches_on_their_way,
    release_phase,
    seen_buckets,
)
from skitter.frontier.seen import ExactSet, seen_set
from skitter.frontier.workers import FETCHING, live_workers
from skitter.model import State
from skitter.observe.report import some
from skitter.scrapy.requests.values import unpack

if TYPE_CHECKING:
    from skitter.frontier.frontier import Frontier
    from skitter.frontier.sites.snapshots import RequestFacts
    from skitter.frontier.transport.connection import Server
    from skitter.model import Request, Stats

STEP = 500
#: In the job's `control`: what to do next. Its keys are whole, or scrapy-redis has them.
WHOLE, THEIRS = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Which job, and where scrapy-redis looks for it."""

    job: str
    requests_key: str
    dupefilter_key: str
    is_list: bool = False  # for FifoQueue and LifoQueue

    @property
    def keys(self) -> tuple[str, str]:
        return self.dupefilter_key, self.requests_key


class Released(msgspec.Struct, kw_only=True):
    """What scrapy-redis was given, and what it was not."""

    job: str
    was_released: bool = False  # before: nothing was changed
    queued: int = 0
    early: int = 0  # of these, what was to wait for a later time
    fingerprints: int = 0
    kept: int = 0  # requests that only a node of the project can read: still in the job
    reasons: dict[str, int] = {}  # why
    dead: int = 0  # dead letters, which stay in the job
    items: int = 0  # that wait for `skitter load`


async def release(server: Server, wanted: Release) -> Released:
    """Raises UsageError, before changing anything, if nodes run or scrapy-redis has a queue."""
    if server.is_cluster:
        raise UsageError("scrapy-redis works with one server, and this is a cluster.")
    frontier = await open_job(server, wanted.job)
    stats = await frontier.stats()
    result = Released(job=wanted.job, dead=stats.dead, items=stats.items)
    phase = await release_phase(frontier)
    if phase == THEIRS and stats.state is State.PAUSED:
        return msgspec.structs.replace(result, was_released=True)
    await _check(frontier, wanted, stats, is_whole=phase == WHOLE)
    await set_state(frontier, State.PAUSED)
    try:
        await _check_nodes(frontier)  # one may have joined meanwhile
        await _write(frontier, wanted, result)
    except BaseException:
        with suppress(InfrastructureError):
            await set_state(frontier, stats.state)
        raise
    await write_control(frontier, {"released": WHOLE})
    await _hand_over(server, wanted)
    await write_control(frontier, {"released": THEIRS})
    return result


async def was_released(frontier: Frontier) -> bool:
    """Whether scrapy-redis has it, and nobody has resumed it here since."""
    is_theirs = await release_phase(frontier) == THEIRS
    return is_theirs and (await frontier.stats()).state is State.PAUSED


# --- what stands against it -----------------------------------------------------------------------


async def _check(frontier: Frontier, wanted: Release, stats: Stats, *, is_whole: bool) -> None:
    await _check_nodes(frontier)
    server, job = frontier.server, wanted.job
    if not isinstance(seen_set(frontier.layout), ExactSet):
        raise UsageError(
            f"{job} keeps what it has seen in a Bloom filter, which cannot be read back: "
            "scrapy-redis would fetch all of it again."
        )
    if not frontier.layout.fingerprinter:
        raise UsageError(f"{job} is not a job of Scrapy nodes: scrapy-redis could not read it.")
    batches = await batches_on_their_way(frontier)
    if batches or await is_fed(server, job):
        raise UsageError(
            f"messages of its feed are still being read into {job}: start a node, and stop it with "
            "Ctrl-C when it has read them."
        )
    for key in () if is_whole else wanted.keys:
        if await server.command("EXISTS", key):
            raise UsageError(
                f"scrapy-redis has {key} already, and would mix it with this job: adopt it "
                "(`skitter adopt scrapy-redis`), or rename or remove it."
            )


async def _check_nodes(frontier: Frontier) -> None:
    everybody = [worker for worker in await live_workers(frontier) if worker.kind in FETCHING]
    gone = {beat.name for beat in await find_dead(frontier, everybody)}
    if at_work := [beat for beat in everybody if beat.name not in gone]:
        raise UsageError(
            f"{some(len(at_work), 'node')} of {frontier.job} still at work, on "
            f"{', '.join(sorted({beat.host for beat in at_work}))}: stop the nodes first. One that "
            "was killed counts for 15 s."
        )


# --- writing --------------------------------------------------------------------------------------


def _making(key: str) -> str:
    return f"{key}:releasing"


async def _write(frontier: Frontier, wanted: Release, result: Released) -> None:
    server, (seen, queue) = frontier.server, map(_making, wanted.keys)
    await server.command("UNLINK", seen, queue, f"{queue}:list")
    async for bucket in seen_buckets(frontier):
        await server.command("SADD", seen, *bucket.members)
    async for facts in all_requests(frontier):
        await _write_some(server, facts, wanted, result)
    if wanted.is_list:
        await _as_list(server, queue, is_lifo=frontier.layout.order == "lifo")
    result.fingerprints = await server.command("SCARD", seen)
    await server.command("SET", f"{seen}:by", frontier.layout.fingerprinter)


async def _write_some(
    server: Server, some: list[RequestFacts], wanted: Release, result: Released
) -> None:
    seen, queue = map(_making, wanted.keys)
    scored: dict[bytes, float] = {}
    for facts in some:
        if facts.dead or facts.excluded or facts.resting or facts.request is None:
            continue
        try:
            entry = entry_of(facts.request, facts.fingerprint)
            packed = pickle.dumps(entry, protocol=4)  # as old a Python as scrapy-redis runs on
        except Exception as error:  # a value of meta may be anything
            await server.command("SREM", seen, facts.fingerprint)
            result.kept += 1
            reason = str(error)
            result.reasons[reason] = result.reasons.get(reason, 0) + 1
            continue
        place = facts.score if facts.score is not None else 0.0
        scored[packed] = place if wanted.is_list else -entry["priority"]
        result.early += facts.delayed
    if scored:
        pairs = [part for packed, score in scored.items() for part in (score, packed)]
        result.queued += await server.command("ZADD", queue, *pairs)


async def _as_list(server: Server, queue: str, *, is_lifo: bool) -> None:
    """FifoQueue takes from the right end of its list, LifoQueue from the left."""
    push, at = "RPUSH" if is_lifo else "LPUSH", 0
    while page := await server.command("ZRANGE", queue, at, at + STEP - 1):
        await server.command(push, f"{queue}:list", *page)
        at += STEP
    if at:
        await server.command("RENAME", f"{queue}:list", queue)


async def _hand_over(server: Server, wanted: Release) -> None:
    """Each step may be repeated. What was adopted before is out of date now."""
    for key in wanted.keys:
        if await server.command("EXISTS", f"{key}:adopted"):
            await server.command("RENAME", f"{key}:adopted", f"{key}:adopted:old")
    rule = await server.command("GETDEL", f"{_making(wanted.dupefilter_key)}:by")
    if rule:
        await server.command("SET", f"{wanted.dupefilter_key}:by", rule)
    for key in wanted.keys:
        if await server.command("EXISTS", _making(key)):
            await server.command("RENAMENX", _making(key), key)


# --- requests -------------------------------------------------------------------------------------


def entry_of(request: Request, fingerprint: str) -> dict[str, Any]:
    """As `Request.to_dict` of Scrapy would write it. Raises UsageError for a value that only a
    node of the project can make."""
    with suppress(ImportError):
        import scrapy_playwright.page  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    rest = request.meta
    fields = unpack(rest.get("fields", {}), _no_class, _no_more)
    headers = rest.get("headers") or request.headers
    entry = {
        "url": request.url,
        "method": request.method,
        "body": request.body,
        "headers": {name.encode("latin-1"): value for name, value in headers.items()},
        "callback": request.handler,
        "errback": rest.get("errback"),
        "priority": rest.get("priority", request.priority),
        "dont_filter": bool(rest.get("dont_filter")),
        **fields,
        # Scrapy leaves it out. A sorted set would take equal requests for one.
        "skitter": fingerprint,
    }
    if "class" in rest:
        entry["_class"] = rest["class"].replace(":", ".")
    return entry


def _no_class(name: str) -> type:
    raise UsageError(
        f"{name.replace(':', '.')} is a class of the project, so only a node can read it"
    )


def _no_more(tag: str, packed: Any) -> Any:
    if tag == "$other":
        raise UsageError("there is another request in its meta, so only a node can read it")
    return _no_class(packed[0]) if tag == "$own" else NotImplemented
