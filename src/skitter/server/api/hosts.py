"""Hosts, and what the fleet has: sessions, routes, Celery tasks."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict

from skitter.domains import registrable_domain
from skitter.engine.proxies.table import ALL, RouteRow, route_rows
from skitter.extras import install
from skitter.frontier.audit.why import look_at_host
from skitter.frontier.control import RESET, set_host
from skitter.frontier.records.metrics import TableRow, read_table
from skitter.frontier.sites.hosts import HostRow, find_hosts, host_row
from skitter.frontier.sites.sessions import LiveSession, live_sessions
from skitter.frontier.sites.snapshots import HostFacts
from skitter.server.call import Call, First, Search
from skitter.server.problems import Refusal
from skitter.server.route import Rows
from skitter.server.site import Site
from skitter.settings import JobOptions

#: More would make everybody wait.
MOST_HOSTS = 50_000


class Hosts(Search, frozen=True, kw_only=True):
    """Sort by lowest success rate, longest queue, longest delay, most pages, or name."""

    sort: Literal["success", "queued", "delay", "pages", "host"] = "delay"


class Host(HostRow, frozen=True, kw_only=True):
    """A host, with the outcomes of its requests in the last hours."""

    blocked_until: float
    own: dict[str, float]  # values that override the job's
    ok: int = 0
    failed: int = 0
    bytes: int = 0
    ms: int = 0  # total of all requests
    p95_ms: float | None = None


async def hosts(call: Call, query: Hosts) -> Rows[Host]:
    """The job's hosts. With more than 50,000, those found first are sorted; `search` finds all."""
    frontier = await call.frontier()
    options, asked = await frontier.fresh_options(), await _asked(call)

    def rank(facts: HostFacts) -> tuple[float, ...]:
        if query.sort == "host":
            return ()
        if query.sort == "pages":
            return (-facts.pages,)
        if query.sort == "queued":
            return (-facts.queued,)
        if query.sort == "delay":
            return (-facts.delay(options).seconds, -facts.queued)
        went = asked.get(facts.name)
        share = went.ok / max(1, went.ok + went.failed) if went else 2.0  # no requests yet: last
        return (share, -went.failed if went else 0, -facts.queued)

    found = await find_hosts(frontier, query.fits, limit=MOST_HOSTS)
    page = query.page(sorted(found, key=lambda host: (*rank(host), host.name)))
    rows = [_host(row, options, asked) for row in page.rows]
    return Rows(rows=rows, next=page.next, total=page.total)


async def change_host(call: Call, body: dict[str, float | bool | None]) -> Host:
    """Override the job's values for a host (delay_s, max_in_flight, max_pages) or pause it with
    blocked_for_s. null restores the job's value, {"reset": true} restores all of them."""
    frontier, name = await call.frontier(), call.path("host")
    changes = dict.fromkeys(RESET) if body.get("reset") is True else dict[str, float | None](body)
    await set_host(frontier, name, **changes)
    options, facts = await frontier.fresh_options(), await look_at_host(frontier, name)
    return _host(facts, options, await _asked(call))


async def _asked(call: Call) -> dict[str, TableRow]:
    return {row.name: row for row in await read_table(await call.frontier(), "host")}


def _host(facts: HostFacts, options: JobOptions, asked: dict[str, TableRow]) -> Host:
    went = asdict(asked[facts.name]) if facts.name in asked else {}
    went.pop("name", None)
    row = asdict(host_row(facts, options))
    return Host(**row, **went, blocked_until=facts.blocked_until, own=facts.own)


TASK_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)


async def sessions(call: Call, query: First) -> Rows[LiveSession]:
    """The job's live sessions: how often each was used and refused."""
    return Rows(rows=await live_sessions(await call.frontier(), query.limit))


async def routes(call: Call) -> Rows[RouteRow]:
    """What each proxy delivered, in total and per domain. All jobs of the server share them; a
    token of some jobs is shown the domains of this one."""
    frontier, rows = await call.frontier(), await route_rows(call.site.server)
    if call.token.jobs:
        sites = {row.domain for row in rows}
        hosts = await find_hosts(
            frontier, lambda host: registrable_domain(host) in sites, limit=MOST_HOSTS
        )
        own = {ALL, *(registrable_domain(one.name) for one in hosts)}
        rows = [row for row in rows if row.domain in own]
    return Rows(rows=rows)


async def task(call: Call) -> dict[str, Any]:
    """The state of a Celery task, by its id."""
    identity = call.path("id")
    if not TASK_ID.fullmatch(identity):
        raise Refusal(404, "this is not a task id.", field="id")
    if call.site.where is None:
        raise Refusal(501, "only `skitter serve` knows tasks.")
    found: dict[str, Any] = msgspec.to_builtins(
        await asyncio.to_thread(_status, call.site, identity)
    )
    return found


def _status(site: Site, identity: str) -> Any:
    try:
        from skitter.celery.callers import status
        from skitter.celery.factory import make_app
    except ImportError:
        raise Refusal(501, f"Celery is not installed: {install('celery')}") from None
    site.celery = site.celery or make_app(site.where)
    return status(identity, app=site.celery)
