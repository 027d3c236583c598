"""Scrapyd's endpoints, for cron lines, operators and dashboards that know those.

Answers are as in Scrapyd's documentation: an error has status 200, and says so in its body. The
token is a bearer, or the password of HTTP's basic authentication. There is one project, `default`.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.responses import Response

from skitter.errors import RunMissing, SkitterError, UsageError
from skitter.frontier.records.agents import list_agents, offers_of
from skitter.frontier.records.operators import NewAction, note_action
from skitter.frontier.records.runs import Run, Runs, Spec, new_id
from skitter.server.api.runs import begin, may_see
from skitter.server.call import Call
from skitter.server.endpoint import read_body
from skitter.server.problems import Refusal, public
from skitter.settings.sources import parse_setting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PROJECT: Final = "default"
VERSION: Final = "list"  # of the agents' lists: no code is uploaded
MAX_FIELDS: Final = 1000
SHOWN: Final = 1000
#: Scrapy's names for what a run may set.
SETTINGS: Final = {
    "CLOSESPIDER_PAGECOUNT": "limits.max_pages",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "politeness.max_in_flight",
    "DEPTH_LIMIT": "limits.max_depth",
    "DOWNLOAD_DELAY": "politeness.delay_s",
    "RETRY_TIMES": "retries.max_retries",
}
#: Of a run, as listjobs.json sorts them.
STATES: Final = {"waiting": "pending", "running": "running", "stopping": "running"}

#: Of its page of jobs.
COLUMNS: Final = ["Project", "Spider", "Job", "PID", "Start", "Runtime", "Finish", "Log", "Items"]

Form = dict[str, list[str]]


async def daemonstatus(call: Call) -> dict[str, Any]:
    """Scrapyd's daemonstatus.json: how many runs are pending, running and finished."""

    async def work(_: Form) -> dict[str, Any]:
        return {name: len(rows) for name, rows in (await _by_state(call)).items()}

    return await _answer(call, work)


async def listprojects(call: Call) -> dict[str, Any]:
    """Scrapyd's listprojects.json."""

    async def work(_: Form) -> dict[str, Any]:
        return {"projects": [PROJECT]}

    return await _answer(call, work)


async def listversions(call: Call) -> dict[str, Any]:
    """Scrapyd's listversions.json: there is one version, what the agents have."""

    async def work(_: Form) -> dict[str, Any]:
        return {"versions": [VERSION]}

    return await _answer(call, work)


async def listspiders(call: Call) -> dict[str, Any]:
    """Scrapyd's listspiders.json: what agents offer."""

    async def work(_: Form) -> dict[str, Any]:
        offers = offers_of(await list_agents(call.site.server)).values()
        names = [offer.name for offer in offers if not offer.error]
        return {"spiders": sorted(filter(call.token.may_see, names))}

    return await _answer(call, work)


async def listjobs(call: Call) -> dict[str, Any]:
    """Scrapyd's listjobs.json: runs, by state."""

    async def work(form: Form) -> dict[str, Any]:
        found = await _by_state(call)
        return {name: [_job_of(run) for run in rows] for name, rows in found.items()}

    return await _answer(call, work)


async def jobs_page(call: Call) -> Response:
    """Scrapyd's page of jobs, which ScrapydWeb reads."""
    rows = [_row(run) for found in (await _by_state(call)).values() for run in found]
    heads = "".join(f"<th>{name}</th>" for name in COLUMNS)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    page = f"<html><head><title>Jobs</title></head><body><h1>Jobs</h1>{table}</body></html>"
    return Response(page, media_type="text/html")


def _row(run: Run) -> str:
    """A time is without its fraction, as in Scrapyd."""
    started, ended = run.started_at, run.ended_at
    took = "" if started is None or ended is None else str(timedelta(seconds=int(ended - started)))
    times = [_moment(at)[:19] if at is not None else "" for at in (started, ended)]
    cells = [PROJECT, run.spider, run.id, "", times[0], took, times[1]]
    log = f'<a href="/api/runs/{escape(run.id)}/logs">Log</a>' if started is not None else ""
    shown = [*map(escape, cells), log, ""]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in shown)}</tr>"


async def schedule(call: Call) -> dict[str, Any]:
    """Scrapyd's schedule.json: start a run. Fields of other names are arguments of the spider."""

    async def work(form: Form) -> dict[str, Any]:
        identity = _last(form, "jobid") or new_id()
        spec = Spec(
            spider=_needed(form, "spider"),
            settings=dict(map(_setting, form.get("setting", []))),
            arguments={name: said[-1] for name, said in form.items() if name not in OURS},
            by=f"{call.token.name} ({call.token.id}), by schedule.json",
        )
        _needed(form, "project")
        run = await begin(call, spec, identity)
        await _note(call, NewAction(run.job, "run_start", f"{spec.spider} {identity}"))
        return {"jobid": run.id}

    return await _answer(call, work)


async def cancel(call: Call) -> dict[str, Any]:
    """Scrapyd's cancel.json: stop a run."""

    async def work(form: Form) -> dict[str, Any]:
        _needed(form, "project")
        runs, identity = Runs.on(call.site.server), _needed(form, "job")
        run = await runs.get(identity)
        if not may_see(call, run):
            raise RunMissing(identity)
        await runs.stop(identity, by=call.token.name)
        await _note(call, NewAction(run.job, "run_stop", identity))
        return {"prevstate": STATES.get(run.state)}

    return await _answer(call, work)


async def jobstatus(call: Call) -> dict[str, Any]:
    """Scrapyd's status.json: the state of one run."""

    async def work(form: Form) -> dict[str, Any]:
        run = await Runs.on(call.site.server).get(_needed(form, "job"))
        if not may_see(call, run):
            raise RunMissing(run.id)
        return {"currstate": STATES.get(run.state, "finished")}

    return await _answer(call, work)


async def unsupported(call: Call) -> dict[str, Any]:
    """Scrapyd's addversion.json, delversion.json and delproject.json: no code travels."""

    async def work(_: Form) -> dict[str, Any]:
        raise UsageError("code cannot be uploaded: put the spider into the --spiders of an agent.")

    return await _answer(call, work)


#: What schedule.json itself reads.
OURS: Final = {"project", "spider", "setting", "jobid", "priority", "_version"}


async def _answer(call: Call, work: Callable[[Form], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """As Scrapyd answers: everything is a 200, except to those who may not ask."""
    try:
        said = {"status": "ok", **await work(await _form(call))}
    except (SkitterError, Refusal) as error:
        says = public(error) if isinstance(error, SkitterError) else str(error)
        said = {"status": "error", "message": says}
    node = platform.node() if call.token.is_operators else "skitter"
    return {"node_name": node, **said}


async def _form(call: Call) -> Form:
    """The query, and the fields of a form."""
    text = call.request.url.query
    if call.request.method == "POST":
        text = f"{text}&{(await read_body(call)).decode('utf-8', 'replace')}"
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise UsageError(f"a form has at most {MAX_FIELDS:,} fields.") from None


async def _by_state(call: Call) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {"pending": [], "running": [], "finished": []}
    newest, _ = await Runs.on(call.site.server).newest(lambda run: may_see(call, run), limit=SHOWN)
    for run in reversed(newest):
        found[STATES.get(run.state, "finished")].append(run)
    return found


def _job_of(run: Run) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": run.id,
        "project": PROJECT,
        "spider": run.spider,
        "version": run.version,
        "settings": run.settings,
        "args": run.arguments,
    }
    if run.started_at is not None:
        shown |= {"start_time": _moment(run.started_at), "pid": None}
        shown |= {"log_url": f"/api/runs/{run.id}/logs", "items_url": None}
    if run.ended_at is not None:
        shown |= {"end_time": _moment(run.ended_at)}
    return shown


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    return parse_setting(f"{SETTINGS.get(name, name)}{equals}{value}")


def _last(form: Form, name: str) -> str:
    return form.get(name, [""])[-1]


def _needed(form: Form, name: str) -> str:
    if not _last(form, name):
        raise UsageError(f"'{name}' parameter is required")
    return _last(form, name)


async def _note(call: Call, action: NewAction) -> None:
    await note_action(call.site.server, f"{call.token.name} ({call.token.id})", action)
