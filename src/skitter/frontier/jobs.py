"""Jobs on a server: create, open, list, purge."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from skitter.errors import (
    JobClosed,
    JobDamaged,
    JobExists,
    JobMismatch,
    JobMissing,
    JobNewer,
    SkitterError,
    shorten,
)
from skitter.extras import RELEASE
from skitter.frontier.control import (
    change_options,
    check_per,
    configure,
    read_controls,
    replaced,
)
from skitter.frontier.frontier import Frontier
from skitter.frontier.quotas import room_for_job
from skitter.frontier.sites.sessions import FleetRoutes
from skitter.frontier.totals import has_options, options_of
from skitter.frontier.transport.endpoints import client_name
from skitter.frontier.transport.keys import JOBS, PUMPED, ShardKeys, feed_key
from skitter.frontier.transport.messages import PURGE, open_state, side_by_side
from skitter.frontier.transport.shard import Shard, scan_keys
from skitter.frontier.transport.sync import turnstile
from skitter.settings import FORMAT, JobOptions, Layout, check_job_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from skitter.frontier.transport.connection import Server
    from skitter.model import State

T = TypeVar("T")
_FINISH = "run it with --fresh to start over, or `skitter purge {job}` to remove it."

#: Jobs looked at concurrently: each takes a connection.
LOOKS_AT_ONCE = 16


async def list_jobs(server: Server) -> list[str]:
    """The names of all jobs on the server, sorted."""
    names: list[bytes] = await server.command("HKEYS", JOBS)
    return sorted(name.decode("utf-8", "replace") for name in names)


async def is_fed(server: Server, job: str) -> bool:
    """Whether its feed list has messages. Others may fill it before there is a job."""
    return bool(await server.command("EXISTS", feed_key(check_job_name(job))))


async def for_each_job(
    server: Server,
    look: Callable[[str], Awaitable[T]],
    on_damaged: Callable[[str, SkitterError], None] = lambda job, error: None,
) -> dict[str, T]:
    """Call `look` for all jobs. A job that is damaged or just purged does not hide the others."""
    found: dict[str, T] = {}
    free = turnstile(LOOKS_AT_ONCE)

    async def look_at(job: str) -> None:
        async with free:
            try:
                found[job] = await look(job)
            except SkitterError as error:
                if error.retryable:
                    raise
                on_damaged(job, error)

    jobs = await list_jobs(server)
    await side_by_side(map(look_at, jobs))
    return {job: found[job] for job in jobs if job in found}


#: Not set by callers: they follow from the options and the release.
CHOSEN_BY_US = frozenset({"by_domain", "domains_together", "fingerprinter", "format", "release"})
#: `skitter create` chooses these for all engines: here, a default means "whatever is stored".
WITHOUT_A_WISH = {"shards": Layout().shards, "bloom": Layout().bloom}


async def create_job(
    server: Server,
    job: str,
    *,
    options: JobOptions | None = None,
    layout: Layout | None = None,
    clock: Callable[[], int] | None = None,
) -> Frontier:
    """Open a job, or create it. Options given here are set on an existing job too."""
    check_job_name(job)
    if await server.command("HGET", JOBS, job) is None:  # a full server refuses writes
        by_domain = options is not None and options.politeness.per == "domain"
        new = replace(layout or Layout(), by_domain=by_domain, domains_together=True)
        new = replace(new, format=FORMAT, release=RELEASE)
        async with room_for_job(server, job):
            await server.command("HSETNX", JOBS, job, msgspec.json.encode(new))
    frontier = await _frontier(server, job, clock)
    if layout is not None:
        _check_layout(job, stored=frontier.layout, asked=layout)
    if options is not None:
        check_per(frontier, options)
    controls = await read_controls(frontier)
    states = _check_states(job, controls)
    if None in states:  # new, or its creator died here
        await configure(frontier, options or JobOptions(), create=True)
        return frontier
    frontier.options = options_of(job, controls[0], lenient=options is not None)
    # Setting options settles every host again: skip it if they are set already.
    if options is not None and not all(has_options(control, options) for control in controls):
        await configure(frontier, options)
    return frontier


async def note_fingerprinter(frontier: Frontier, name: str) -> None:
    """Note how the nodes of this job tell pages apart, for others who add URLs."""
    if frontier.layout.fingerprinter != name:
        frontier.layout = replace(frontier.layout, fingerprinter=name)
        raw = await frontier.server.command("HGET", JOBS, frontier.job) or b"{}"
        known = msgspec.json.decode(raw, type=dict[str, Any]) | asdict(frontier.layout)
        await frontier.server.command("HSET", JOBS, frontier.job, msgspec.json.encode(known))
        await frontier.home.command("HINCRBY", "control", "born", 1)  # others open it again


async def kept_format(frontier: Frontier, wanted: str, *, before: str) -> str:
    """What rows of a job without a spider say of pages: what it has, else `wanted`, from now on.
    `before`: of a job that has handled pages and does not say, as earlier releases had no other."""
    state, found = await frontier.home.command("HMGET", "control", "state", "says")
    if found is None and state is not None:  # else it was purged: leave nothing of it
        stats = await frontier.stats()
        chosen = before if stats.done or stats.items or stats.stored else wanted
        await frontier.home.command("HSETNX", "control", "says", chosen)
        found = await frontier.home.command("HGET", "control", "says")
    return wanted if found is None else str(found.decode("utf-8", "replace"))


async def new_job(
    server: Server,
    job: str,
    *,
    changes: Mapping[str, float | str | None],
    layout: Layout | None = None,
) -> Frontier:
    """Create a job whose options survive its runs, as if an operator had set them."""
    options = replaced(JobOptions(), changes)
    if check_job_name(job) in await list_jobs(server):
        raise JobExists(job)
    frontier = await create_job(server, job, options=options, layout=layout)
    if changes:
        await change_options(frontier, changes)
    return frontier


async def open_job(
    server: Server,
    job: str,
    *,
    as_found: bool = False,
    client: str | None = None,
    clock: Callable[[], int] | None = None,
) -> Frontier:
    """Open an existing job. With `as_found`, even one that is damaged or half purged.

    `client`: a name that was never used before; generated by default.
    """
    frontier = await _frontier(server, check_job_name(job), clock, client)
    if as_found:
        return frontier
    controls = await read_controls(frontier)
    if None in _check_states(job, controls):
        raise JobMissing(job, await list_jobs(server))
    frontier.options = options_of(job, controls[0])
    return frontier


async def purge_job(
    frontier: Frontier, *, meanwhile: Callable[[], Awaitable[object]] | None = None
) -> int:
    """Remove a job and all its data, in small steps. Returns how many keys were removed.

    The state changes first, on every shard, so that late workers are refused. The name is removed
    before the states: an interrupted purge can be run again until only the states are left, and a
    job that is created again meanwhile keeps its name.

    `meanwhile` removes what is stored elsewhere: its items are gone by then, and if it is
    interrupted, the job stays half purged, so that no crawl continues with the rest.
    """
    server = frontier.server
    for shard in frontier.shards:
        await shard.control([("state", PURGE)], create=1)
    await server.command("HDEL", PUMPED, frontier.job)  # its pumps are not those of a new job
    removed: int = await server.command("UNLINK", feed_key(frontier.job))
    removed += await server.command("UNLINK", feed_key(frontier.job) + ":lock")
    for shard in frontier.shards:
        control = shard.keys.key("control")
        async for keys in scan_keys(shard):
            if batch := [key for key in keys if key != control]:
                removed += await server.command("UNLINK", *batch)
    await FleetRoutes.on(server).empty_purse(frontier.job)
    if meanwhile:
        await meanwhile()
    await server.command("HDEL", JOBS, frontier.job)
    for shard in frontier.shards:
        removed += await server.command("UNLINK", shard.keys.key("control"))
    return removed


async def _frontier(
    server: Server, job: str, clock: Callable[[], int] | None, client: str | None = None
) -> Frontier:
    raw = await server.command("HGET", JOBS, job)
    if raw is None:
        raise JobMissing(job, await list_jobs(server))
    layout = _open_layout(job, raw)
    name = client or client_name()
    shards = [Shard(server, ShardKeys(job, number), name, clock) for number in range(layout.shards)]
    return Frontier(job, layout, JobOptions(), shards)


class _Format(msgspec.Struct):
    """What every release can read of a layout."""

    format: int = 1
    release: str = ""


def _open_layout(job: str, raw: bytes) -> Layout:
    """Raises JobDamaged, or JobNewer."""
    try:
        stored = msgspec.json.decode(raw, type=_Format)
        if stored.format > FORMAT:
            maker = shorten(stored.release) or "a newer one"
            what = f"{maker} made it in format {stored.format}, and this one knows {FORMAT}"
            raise JobNewer(job, what)
        return msgspec.json.decode(raw, type=Layout)
    except msgspec.MsgspecError as error:
        raise JobDamaged(job, f"its layout cannot be read ({error})") from None


def _check_states(job: str, controls: list[dict[str, str]]) -> list[State | None]:
    """The state of each shard; None: the shard was never set up."""
    states = [control.get("state") for control in controls]
    if PURGE in states:
        raise JobClosed(job, "half purged", hint=_FINISH.format(job=job))
    return [None if state is None else open_state(job, state) for state in states]


def _check_layout(job: str, *, stored: Layout, asked: Layout) -> None:
    for field in fields(Layout):
        if field.name in CHOSEN_BY_US:
            continue
        old, new = getattr(stored, field.name), getattr(asked, field.name)
        if old != new and (field.name, new) not in WITHOUT_A_WISH.items():
            raise JobMismatch(job, field.name, stored=old, asked=new)
