"""Is every URL accounted for, and why is one where it is: audit, why."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from skitter.cli.common import Directory, Job, Json, Redis, on_job, on_server, settings
from skitter.cli.output import clean, emit_json, err, out, pairs, say
from skitter.frontier.audit import audit
from skitter.frontier.connection import Server
from skitter.frontier.frontier import Frontier
from skitter.frontier.jobs import open_job
from skitter.frontier.report import AuditReport
from skitter.frontier.rules import STATES
from skitter.frontier.why import Explanation, why

PANEL = "Check and repair"


def add_to(app: typer.Typer) -> None:
    app.command("audit", rich_help_panel=PANEL)(audit_job)
    app.command("why", rich_help_panel=PANEL)(explain)


def audit_job(
    job: Job, redis: Redis = None, directory: Directory = None, as_json: Json = False
) -> None:
    """Check that every URL is accounted for. Works on a running crawl; exit code 1 on problems."""

    async def work(server: Server) -> AuditReport:
        with err.status("auditing") as status:
            return await audit(await open_job(server, job, as_found=True), progress=status.update)

    report = on_server(settings(redis, directory), work)
    if as_json:
        emit_json(
            {
                "job": job,
                "clean": report.clean,
                "exact": report.exact,
                "counts": dict(report.counts),
                "checked": {
                    "requests": report.requests,
                    "hosts": report.hosts,
                    "fingerprints": report.fingerprints,
                },
                "unchecked": report.unchecked,
                "problems": sorted(report.problems),
            }
        )
    else:
        show_audit(report)
    if not report.clean:
        raise typer.Exit(1)


def show_audit(report: AuditReport) -> None:
    counts = report.counts
    shown = [state for state in STATES if counts[state] or state != "dropped"]
    say(f"seen {counts['seen']:,} = " + " + ".join(f"{name} {counts[name]:,}" for name in shown))
    say(
        f"checked {report.requests:,} requests, {report.hosts:,} hosts, "
        f"{report.fingerprints:,} fingerprints"
    )
    for problem in sorted(report.problems):
        out.print(f"[red]problem[/]  {escape(clean(f'{problem.subject} {problem.says}'))}")
    if report.full:
        say(f"There may be more: the first {len(report.problems):,} are listed.")
    for what in report.unchecked:
        out.print(f"[yellow]not checked[/]  {escape(what)}")
    if report.clean and report.exact:
        out.print("[green]Every URL is accounted for.[/]")
    elif report.clean:
        say(f"No problem in what was checked. For the rest, `skitter pause {report.job}` first.")


def explain(
    job: Job,
    url: Annotated[str, typer.Argument(metavar="URL")],
    redis: Redis = None,
    directory: Directory = None,
    as_json: Json = False,
) -> None:
    """Why a URL is where it is: its state, what it waits for, where it was found."""

    async def work(frontier: Frontier) -> Explanation:
        return await why(frontier, url)

    found = on_job(settings(redis, directory), job, work)
    if as_json:
        emit_json(found)
        return
    rows: list[tuple[str, object]] = [("url", found.url), ("state", found.state)]
    rows += [("because" if i == 0 else "", reason) for i, reason in enumerate(found.because)]
    if found.depth is not None:
        rows.append(("found on", found.found_on or "pushed from outside"))
        rows.append(("depth", found.depth))
        rows.append(("priority", found.priority))
    if found.failures or found.losses:
        rows.append(("tries", f"{found.failures} failed, {found.losses} lost with their worker"))
    if found.last_error and found.state != "dead":
        rows.append(("last error", found.last_error))
    rows += [("counts as", found.canonical), ("fingerprint", found.fingerprint)]
    pairs(rows)
