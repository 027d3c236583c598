"""Account for every URL, explain one, and answer probes: audit, why, health."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from functools import lru_cache, partial
from typing import Annotated

import msgspec

from skitter.cli.common import (
    SERVER,
    Body,
    Job,
    Json,
    Method,
    Where,
    as_bytes,
    on_job,
    on_server,
)
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.show.console import err, out, plain, remark
from skitter.cli.show.output import emit_json, grid, pairs, say
from skitter.errors import InfrastructureError, UsageError
from skitter.explain import explain_url
from skitter.fetch.robots import open_rules
from skitter.frontier.audit.auditor import audit
from skitter.frontier.audit.politeness import Allows, HostPoliteness, audit_politeness
from skitter.frontier.audit.rules import STATES, AuditReport
from skitter.frontier.audit.why import Explanation, why_all
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import open_job
from skitter.frontier.records.health import server_notes
from skitter.frontier.transport.connection import Server, inspect
from skitter.frontier.workers import FETCHING, SILENCE_S, heartbeats, supervisors
from skitter.observe.report import duration, moment, some
from skitter.redact import redact, redact_text, redact_tree
from skitter.settings import Settings, resolve

COLUMNS = ["host", "requests", "delay", "smallest gap", "in flight", "disallowed", "unknown"]


def show_politeness(job: str, where: Settings, *, as_json: bool) -> None:
    """Exits with 1 if a host was not crawled politely."""
    allows = _reader_of_rules()
    found = on_job(where, job, lambda frontier: audit_politeness(frontier, allows=allows))
    if as_json:
        emit_json(redact_tree([{**asdict(host), "problems": host.problems} for host in found]))
    elif not found:
        say(f"{job}: no request to a host with a delay is on record.")
    else:
        _show(found)
    if any(host.problems for host in found):
        raise Exit(1)


def _reader_of_rules() -> Allows:
    user_agent, opened = resolve().fetch.user_agent, lru_cache(maxsize=100)(open_rules)

    def allows(stored: bytes, url: str) -> bool | None:
        rules = opened(stored)
        return rules.allows(url, user_agent) if rules else None

    return allows


def _show(found: list[HostPoliteness]) -> None:
    grid(COLUMNS, [list(_cells(politeness)) for politeness in found])
    for politeness in found:
        for problem in politeness.problems:
            remark("problem", f"{politeness.host}: {problem}", style="red")
        for url in politeness.disallowed or ():
            remark("disallowed", redact(url), style="red")
    if not any(politeness.problems for politeness in found):
        out.print("[green]Politeness was kept at every host.[/]")


def _cells(politeness: HostPoliteness) -> Iterator[object]:
    yield politeness.host
    yield politeness.requests
    yield f"{politeness.delay_s:g} s"
    yield "-" if politeness.smallest_gap_s is None else f"{politeness.smallest_gap_s:.3f} s"
    yield f"{politeness.most_in_flight} of {politeness.max_in_flight}"
    yield "-" if politeness.disallowed is None else len(politeness.disallowed)
    yield politeness.vanished


#: States that most jobs do not have: shown if they do.
RARE = ("trapped", "unhandled", "excluded", "dropped")


def audit_job(
    job: Job,
    politeness: Annotated[
        bool,
        Option(
            "--politeness",
            help="Check that crawl delays and limits were kept at each host recently.",
        ),
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Check that every URL is accounted for.

    Works while the crawl runs. The exit code is 1 if something is wrong.
    """
    if politeness:
        show_politeness(job, where, as_json=as_json)
        return

    async def work(server: Server) -> AuditReport:
        with err.status("auditing") as status:
            frontier = await open_job(server, job, as_found=True)
            return await audit(frontier, progress=lambda text: status.update(plain(text)))

    report = on_server(where, work)
    if as_json:
        emit_json(report.document())
    else:
        show_audit(report)
    if not report.clean:
        raise Exit(1)


def show_audit(report: AuditReport) -> None:
    counts = report.counts
    shown = [state for state in STATES if counts[state] or state not in RARE]
    say(f"seen {counts['seen']:,} = " + " + ".join(f"{name} {counts[name]:,}" for name in shown))
    say(
        f"checked {some(report.requests, 'request')}, {some(report.hosts, 'host')}, "
        f"{some(report.fingerprints, 'fingerprint')}"
    )
    for problem in sorted(report.problems):
        remark("problem", f"{problem.subject} {problem.says}", style="red")
    if report.full:
        say(f"There may be more; only the first {len(report.problems):,} are listed.")
    for what in report.unchecked:
        remark("not checked", what, style="yellow")
    if report.clean and report.exact:
        out.print("[green]Every URL is accounted for.[/]")
    elif report.clean:
        say(f"No problem in what was checked. For the rest, `skitter pause {report.job}` first.")


def explain(
    job: Job,
    url: Annotated[str, Argument(metavar="URL", help="URL or fingerprint.")],
    method: Method = "GET",
    body: Body = "",
    every: Annotated[
        bool,
        Option(
            "--all",
            help="All requests for the URL, with any method and body. Reads the whole job.",
        ),
    ] = False,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Explain where a URL is, what it waits for, and where it was found."""

    async def work(frontier: Frontier) -> list[Explanation]:
        if every:
            return await why_all(frontier, url)
        return [await explain_url(frontier, url, method=method, body=as_bytes(body))]

    found = on_job(where, job, work)
    if as_json:
        masked = redact_tree(msgspec.to_builtins(found))
        emit_json(masked if every else masked[0])
        return
    if not found:
        say(f"{job}: no request for {redact(url)} is queued, delayed, leased or dead.")
    for i, explanation in enumerate(found):
        if i:
            say("")
        pairs(_rows(explanation))


def _rows(found: Explanation) -> Iterator[tuple[str, object]]:
    done = ": only the fingerprint of a finished request is kept" * (found.state == "done")
    yield "url", redact(found.url or "") or f"unknown{done}"
    yield "state", found.state
    for i, reason in enumerate(found.because):
        yield "because" if i == 0 else "", redact_text(reason)
    if found.depth is not None:
        yield "found on", redact(found.found_on or "") or "pushed from outside"
        if found.added_at is not None:
            yield "added at", moment(found.added_at)
        yield "depth", found.depth
        yield "priority", found.priority
    if found.method not in (None, "GET"):
        yield "method", found.method
    if found.failures or found.losses:
        yield "tries", f"{found.failures} failed, {found.losses} lost with their worker"
    if found.last_error and found.state not in ("dead", "excluded"):
        yield "last error", redact_text(found.last_error)
    if found.canonical:
        yield "canonical", redact(found.canonical)
    yield "fingerprint", found.fingerprint


class Part(StrEnum):
    """What `health` can ask about."""

    SERVER = "server"
    WORKER = "worker"
    LOADER = "loader"


def health(
    job: Annotated[str | None, Argument(metavar="[JOB]", help="For --part.")] = None,
    part: Annotated[
        Part, Option(help="A worker or loader of the job on this machine, or the server.")
    ] = Part.SERVER,
    where: Where = SERVER,
) -> None:
    """Say in one line whether the server, or this machine's worker or loader, is healthy.

    For probes: exit code 0 if it is, 1 if it is not, 3 if the server does not answer. Workers and
    loaders are healthy while the server is away, as they wait for it with their results.
    """
    if part is Part.SERVER:
        says = on_server(where, _server_health)
        say(says or "healthy: the server answers and can write")
    elif job is None:
        raise UsageError(f"name the job of the {part}: `skitter health JOB --part {part}`.")
    else:
        try:
            says = on_job(where, job, partial(_process_health, kind=part))
        except InfrastructureError as error:
            says = ""
            say(f"healthy, as far as can be told: {error}")
        else:
            say(says or f"healthy: a {part} on this machine reports")
    if says:
        raise Exit(1)


async def _server_health(server: Server) -> str:
    """What is wrong; empty: nothing."""
    return "; ".join(server_notes(await inspect(server), server.directory))


async def _process_health(frontier: Frontier, kind: Part) -> str:
    """A supervisor that has no worker to run is healthy, too."""
    now, host = await frontier.server_time(), socket.gethostname()
    kinds = FETCHING if kind is Part.WORKER else {kind.value}
    found = [heartbeat for heartbeat in await heartbeats(frontier) if heartbeat.kind in kinds]
    found += await supervisors(frontier) if kind is Part.WORKER else []
    here = [beat.at for beat in found if beat.host == host]
    if any(now - at < SILENCE_S for at in here):
        return ""
    return (
        f"no {kind} on {host} has reported for {duration(now - max(here))}"
        if here
        else (f"no {kind} on {host} has ever reported")
    )
