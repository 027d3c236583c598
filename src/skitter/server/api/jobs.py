"""Jobs: list, inspect, control; their options and schedules."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from skitter.crawl.watch import Overview, without_processes
from skitter.frontier.control import change_options, operator_options, replaced, set_state
from skitter.frontier.jobs import new_job, open_job, purge_job
from skitter.frontier.quotas import QuotaUse, list_tenants, uses_of
from skitter.frontier.records.preview import Effect, preview
from skitter.frontier.records.schedule import (
    Schedule,
    new_schedule,
    read_schedule,
    remove_schedule,
    set_schedule,
)
from skitter.frontier.workers import (
    MAX_WORKERS,
    Change,
    Heartbeat,
    Wish,
    changes_by,
    describe_changes,
    live_machines,
    live_workers,
    set_wanted_workers,
)
from skitter.model import State
from skitter.server.call import Call, Limit, Query, Search
from skitter.server.problems import Refusal
from skitter.server.route import Removed, Rows
from skitter.settings import JOB_OPTIONS, JobOptions, Layout, Option
from skitter.sinks.destination import remove_store

log = logging.getLogger("skitter.server")


class Steered(msgspec.Struct, frozen=True):
    """The state that the operator asked for."""

    state: State


class Scaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Workers in all, or per machine; 0: automatic."""

    workers: int
    per_machine: bool = False
    preview: bool = False  # change nothing


class Scaled(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted now, and what starts and stops for it."""

    workers: int
    per_machine: bool
    machines: list[Change]
    says: str


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Its name, the options that differ from the defaults, and the number of parts."""

    job: str
    options: dict[str, float | int | str | bool | None] = {}
    shards: int = 1


class Confirmation(Query, frozen=True, kw_only=True):
    """The job's name, repeated."""

    confirm: str = ""


class Purged(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed."""

    job: str
    removed_keys: int


class Workers(Search, frozen=True, kw_only=True):
    """All of them, if there are no more than 1,000."""

    limit: Limit = 1000


class Jobs(Search, frozen=True, kw_only=True):
    """`sort`: by name, or with those that need somebody first. `search` finds states, too."""

    sort: Literal["job", "worst"] = "job"
    limit: Limit = 1000


async def all_jobs(call: Call, query: Jobs) -> Rows[Overview]:
    """The jobs on this server, without their workers."""
    looks = [
        one
        for one in await call.site.watcher.look_at_all(log.warning)
        if call.token.may_see(one.job)
    ]
    found = [look for look in looks if query.fits(look.job, look.status, *_kinds(look))]
    if query.sort == "worst":
        found.sort(key=lambda one: (not one.troubles, one.finished, one.job))
    return query.page([without_processes(one) for one in found])


def _kinds(look: Overview) -> list[str]:
    return [trouble.kind for trouble in look.troubles]


async def job(call: Call) -> Overview:
    """One job: its numbers, its workers and its warnings."""
    return await call.site.watcher.look(call.path("job"))


async def create(call: Call, body: NewJob) -> Overview:
    """Create a job. Runs keep the options given here."""
    layout = Layout(shards=body.shards)
    if not call.token.may_see(body.job):
        jobs = ", ".join(call.token.jobs)
        raise Refusal(403, f"your token is for the jobs {jobs}.", field="job")
    frontier = await new_job(call.site.server, body.job, changes=body.options, layout=layout)
    return await call.site.watcher.look_at(frontier)


async def purge(call: Call, query: Confirmation) -> Purged:
    """Remove a job with its queue, history, items, and the store that its CSV or Parquet file was
    written from, if that is here. This cannot be undone."""
    name = call.path("job")
    if query.confirm != name:
        raise Refusal(422, f"add `?confirm={name}`: this removes data.", field="confirm")
    frontier = await open_job(call.site.server, name, as_found=True)
    directory = call.site.server.directory or Path(".skitter")

    async def remove_rows() -> None:
        remove_store(name, directory)

    return Purged(job=name, removed_keys=await purge_job(frontier, meanwhile=remove_rows))


async def workers(call: Call, query: Workers) -> Rows[Heartbeat]:
    """The running workers and loaders. `search` finds names, machines and kinds."""
    alive = await live_workers(await call.frontier())
    return query.page([beat for beat in alive if query.fits(beat.name, beat.host, beat.kind)])


async def pause(call: Call) -> Steered:
    """Stop handing out URLs; new ones are still accepted."""
    return await _steer(call, State.PAUSED)


async def resume(call: Call) -> Steered:
    """Continue after pause, drain or cancel."""
    return await _steer(call, State.RUNNING)


async def drain(call: Call) -> Steered:
    """Finish the queue; accept no new URLs."""
    return await _steer(call, State.DRAINING)


async def cancel(call: Call) -> Steered:
    """Stop: hand out nothing and accept nothing. The queue stays."""
    return await _steer(call, State.CANCELLED)


async def _steer(call: Call, state: State) -> Steered:
    await set_state(await call.frontier(), state)
    return Steered(state)


async def scale(call: Call, body: Scaling) -> Scaled:
    """Set how many workers the job has; running machines share them out and follow. With `preview`,
    only say what would start and stop."""
    if not 0 <= body.workers <= MAX_WORKERS:
        says = f"workers must be 1 to {MAX_WORKERS:,}, or 0 for automatic."
        raise Refusal(422, says, field="workers", hint="pause the job to stop all workers.")
    frontier, wish = await call.frontier(), Wish(body.workers, body.per_machine)
    machines = await live_machines(frontier)
    changes = changes_by(wish, await live_workers(frontier), machines)
    if not body.preview:
        await set_wanted_workers(frontier, wish)
    return Scaled(
        workers=wish.workers,
        per_machine=wish.per_machine,
        machines=changes,
        says=describe_changes(changes),
    )


Value = float | int | str | bool | None
Changes = dict[str, Value]
KINDS: Final[dict[Any, Literal["number", "text", "switch"]]] = {
    bool: "switch",
    str: "text",
    int: "number",
    float: "number",
}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One option of the job. null: no limit."""

    name: str
    table: str
    value: Value
    default: Value
    by: str  # operator (`skitter set`, or here), configuration (of the run), or default
    help: str
    takes: str
    kind: Literal["number", "text", "switch", "choice"]
    choices: tuple[str, ...] = ()


async def settings(call: Call) -> Rows[Setting]:
    """The options of the job, and who set them."""
    frontier = await call.frontier()
    return _rows(frontier.options, await operator_options(frontier))


async def change_settings(call: Call, body: Changes) -> Rows[Setting]:
    """Change some options; workers obey at once. null: no limit."""
    frontier = await call.frontier()
    options = await change_options(frontier, body)
    return _rows(options, await operator_options(frontier))


async def preview_settings(call: Call, body: Changes) -> Rows[Effect]:
    """Show what a change would do to pending URLs, without making it."""
    frontier = await call.frontier()
    return Rows(rows=await preview(frontier, replaced(frontier.options, body)))


def _rows(options: JobOptions, set_by_operator: dict[str, Any]) -> Rows[Setting]:
    return Rows(rows=[_setting(option, options, set_by_operator) for option in JOB_OPTIONS])


def _setting(option: Option, options: JobOptions, set_by_operator: dict[str, Any]) -> Setting:
    value = getattr(getattr(options, option.table), option.name)
    by = "default" if value == option.default else "configuration"
    choices = get_args(option.type)
    return Setting(
        name=option.name,
        table=option.table,
        value=value,
        default=option.default,
        by="operator" if option.name in set_by_operator else by,
        help=option.declared.help,
        takes=option.expected,
        kind="choice" if choices else KINDS[option.type],
        choices=choices,
    )


async def tenants(call: Call) -> Rows[QuotaUse]:
    """The quotas of tenants, and what is used of each: those of jobs that the token is for."""
    server = call.site.server
    seen = [tenant for tenant in await list_tenants(server) if call.token.covers(tenant.jobs)]
    return Rows(rows=await uses_of(server, seen))


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cron expression (UTC), or an interval in seconds."""

    cron: str = ""
    every_s: float = 0.0


async def schedule(call: Call) -> Schedule | None:
    """When rounds begin; null: the job has no schedule."""
    return await read_schedule(await call.frontier())


async def change_schedule(call: Call, body: When) -> Schedule:
    """Set or replace the job's schedule."""
    frontier = await call.frontier()
    now_ms = round(1000 * await frontier.server_time())
    made = new_schedule(cron=body.cron, every_s=body.every_s, now_ms=now_ms)
    await set_schedule(frontier, made)
    return made


async def drop_schedule(call: Call) -> Removed:
    """Remove the schedule of the job."""
    return Removed(await remove_schedule(await call.frontier()))
