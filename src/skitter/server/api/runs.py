"""Runs over HTTP: what agents offer; start, list, stop, repeat; the log of one.

A token that is for some jobs sees their runs, and starts spiders whose own job is among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from skitter.errors import JobMissing, RunMissing
from skitter.frontier.jobs import list_jobs, open_job
from skitter.frontier.quotas import check_new_job
from skitter.frontier.records.agents import (
    Agent,
    Offer,
    find_offer,
    list_agents,
    offers_of,
    start_run,
)
from skitter.frontier.records.runs import RUN_OPTIONS, Run, Runs, Spec, new_id
from skitter.frontier.workers import LOG_PAGE, Event, read_log
from skitter.server.call import Call, EntryId, First, Search
from skitter.server.problems import Refusal
from skitter.server.route import Rows

if TYPE_CHECKING:
    from skitter.frontier.transport.connection import Server


class NewRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A spider that an agent offers, and what it is given. An `id` that was used starts nothing."""

    spider: str
    arguments: dict[str, str] = {}
    settings: dict[str, Any] = {}
    job: str = ""
    out: str = ""
    fresh: bool = False
    max_time_s: float | None = None
    id: str = ""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that a run may have."""

    key: str
    help: str
    takes: str
    default: Any


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """The spiders of all agents, the names of agents that are there, and what runs may set."""

    spiders: list[Offer]
    agents: list[str]
    settings: list[Choice]


class RunsQuery(Search, frozen=True, kw_only=True):
    """`search` finds ids, spiders, jobs and states."""

    job: str = ""


class RunLines(First, frozen=True, kw_only=True):
    """`after`: the `next` of the previous page."""

    after: EntryId = ""


async def offers(call: Call) -> Offers:
    """What can be started: the spiders of agents, with their arguments, and the settings."""
    agents = await list_agents(call.site.server)
    alive = await list_agents(call.site.server, alive=True)
    return Offers(
        spiders=[
            offer for offer in offers_of(agents).values() if call.token.may_see(_job_of(offer))
        ],
        agents=[agent.name for agent in alive if _offers_to(call, agent)],
        settings=[
            Choice(
                key=option.key,
                help=option.declared.help,
                takes=option.expected,
                default=option.default,
            )
            for option in RUN_OPTIONS
        ],
    )


async def run_start(call: Call, body: NewRun) -> Run:
    """Start a run on an agent. It waits if no agent is there, or another run works on its job."""
    fields = msgspec.structs.asdict(body)
    identity = fields.pop("id") or new_id()
    return await begin(call, Spec(**fields, by=_name_of(call)), identity)


async def begin(call: Call, spec: Spec, identity: str) -> Run:
    """Start it, if the caller's token is for its job."""
    server = call.site.server
    offer = await find_offer(server, spec)
    for job in filter(None, (_job_of(offer), spec.job)):
        if not call.token.may_see(job):
            says = f"your token is for the jobs {', '.join(call.token.jobs)}."
            raise Refusal(403, says, field="job")
    await check_room(server, spec.job or _job_of(offer))
    spec = msgspec.structs.replace(spec, within=call.token.jobs)
    is_new = await start_run(server, offer, spec, identity)
    begun = await Runs.on(server).get(identity)
    if not is_new and not (may_see(call, begun) and is_repeat(begun, spec, offer)):
        raise Refusal(409, f"there is another run {identity!r}: choose another id.", field="id")
    return begun


async def check_room(server: Server, job: str) -> None:
    """Raises QuotaReached, if the run would create a job beyond the quota of its tenant."""
    if job not in await list_jobs(server):
        await check_new_job(server, job)


def is_repeat(begun: Run, spec: Spec, offer: Offer) -> bool:
    """Whether the run was given the same."""
    names = ("arguments", "settings", "out", "fresh", "max_time_s")
    was, given = ({name: getattr(of, name) for name in names} for of in (begun, spec))
    is_same = msgspec.json.encode(was) == msgspec.json.encode(given)
    return is_same and begun.spider == offer.name and spec.job in ("", begun.job)


async def runs(call: Call, query: RunsQuery) -> Rows[Run]:
    """Runs, the newest first."""

    def wanted(run: Run) -> bool:
        is_of_job = query.job in ("", run.job, run.spider)
        return (
            is_of_job and may_see(call, run) and query.fits(run.id, run.spider, run.job, run.state)
        )

    found, more = await Runs.on(call.site.server).newest(
        wanted, limit=query.limit, skip=query.start
    )
    return Rows(rows=found, next=None if more is None else str(more))


async def run(call: Call) -> Run:
    """One run: what was asked for, who has it, and its report."""
    found = await Runs.on(call.site.server).get(call.path("id"))
    if not may_see(call, found):
        raise RunMissing(found.id)
    return found


async def run_stop(call: Call) -> Run:
    """Stop a run. Its agent finishes the pages in flight; `again` continues it."""
    found = await run(call)
    await Runs.on(call.site.server).stop(found.id, by=_name_of(call))
    return await run(call)


async def run_again(call: Call) -> Run:
    """Start a run with what this one was given. It continues the job."""
    found = await run(call)
    spec = await Runs.on(call.site.server).spec_again(found.id, _name_of(call))
    return await begin(call, spec, new_id())


async def run_logs(call: Call, query: RunLines) -> Rows[Event]:
    """The log of the run's job since the run began, oldest line first."""
    found = await run(call)
    if not found.job or found.started_at is None:
        return Rows(rows=[])
    try:
        frontier = await open_job(call.site.server, found.job)
    except JobMissing:  # it was purged since
        return Rows(rows=[])
    after = query.after or f"{round(1000 * found.started_at)}-0"
    lines = await read_log(frontier, after, min(query.limit, LOG_PAGE))
    more = lines[-1].id if len(lines) == query.limit else None
    end_s = found.ended_at
    return Rows(rows=[line for line in lines if end_s is None or line.at <= end_s + 1], next=more)


def may_see(call: Call, found: Run) -> bool:
    """A run whose job is not known yet is seen by those who see all, and by who asked for it."""
    if found.job or not call.token.jobs:
        return call.token.may_see(found.job)
    return bool(found.within) and set(found.within) <= set(call.token.jobs)


def _offers_to(call: Call, agent: Agent) -> bool:
    """An agent for others only is not named."""
    offers = (_job_of(offer) for offer in agent.offers)
    return not call.token.jobs or any(map(call.token.may_see, offers))


def _job_of(offer: Offer) -> str:
    return offer.job or offer.name


def _name_of(call: Call) -> str:
    return f"{call.token.name} ({call.token.id})"
