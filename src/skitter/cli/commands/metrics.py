"""Figures of a crawl: metrics, quality, hosts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean
from typing import Annotated, Any

from skitter.cli.common import SERVER, Job, Json, Where, on_job, on_server
from skitter.cli.parameters import Argument, Exit, Option
from skitter.cli.show.console import remark
from skitter.cli.show.output import emit_json, grid, say
from skitter.errors import UsageError
from skitter.frontier.frontier import Frontier
from skitter.frontier.records.health import read_quality, thresholds
from skitter.frontier.records.metrics import QUANTILES, read_history, read_timings
from skitter.frontier.records.own import ERROR, SUCCESS, OwnMetrics
from skitter.frontier.sites.hosts import host_row, slowest_hosts
from skitter.frontier.sites.snapshots import HostFacts
from skitter.frontier.transport.connection import Server
from skitter.observe.metrics import COUNTERS, DAY_S, TIMING_GRAINS, TIMINGS, Histogram, merged
from skitter.observe.quality import History, Line, judge, lines_of, sparkline
from skitter.settings import JobOptions, QualityOptions

BARS = 24
COUNTED = ["counted", "over time", "sum"]
OWN = ["counted", "tags", "sum"]
TIMED = ["timed", "count", "errors", "mean", "p50", "p95", "p99"]
Rows = list[dict[str, Any]]


def metrics(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Show only this one.")] = None,
    job: Annotated[
        str | None, Option("--job", help="A crawl. Default: what skitter.Metrics counted.")
    ] = None,
    days: Annotated[int, Option(min=1, max=7, help="How many days to show.")] = 1,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Show what a crawl, or your own code, has counted and timed.

    Days of a crawl are the last 24 hours each; those of your own code are calendar days in UTC.
    """
    if job is None:
        counted, timed = on_server(where, lambda server: _read_own(server, name, days))
    elif name and name not in {*COUNTERS, *TIMINGS}:
        raise UsageError(f"no metric of a crawl is called {name!r}: leave it out to see all.")
    else:
        counted, timed = on_job(where, job, lambda frontier: _read_job(frontier, name, days))
    if as_json:
        emit_json({"counted": counted, "timed": timed})
    elif not (counted or timed):
        named = f" under the name {name!r}" * (name is not None)
        hint = "" if job else f"; for a crawl, `skitter metrics --job {name or 'JOB'}`"
        say(f"Nothing has been counted or timed{named} yet{hint}.")
    else:
        _show(counted, timed)


async def _read_job(frontier: Frontier, name: str | None, days: int) -> tuple[Rows, Rows]:
    names = [name] if name else [*COUNTERS, *TIMINGS]
    history = await read_history(frontier, names, since_s=days * DAY_S, points=BARS)
    counted = [
        {"name": one, "sum": sum(n or 0 for n in points), "points": points}
        for one, points in history.series.items()
        if name or any(points)
    ]
    grain = TIMING_GRAINS[1]
    hour = int(await frontier.server_time()) // grain.step_s
    timed = []
    for quantile in history.quantiles:
        slots = range(hour - 24 * days + 1, hour + 1)
        found = merged((await read_timings(frontier, quantile, grain, slots)).values())
        timed += [_timing(quantile, found)] if found.count else []
    return counted, timed


async def _read_own(server: Server, name: str | None, days: int) -> tuple[Rows, Rows]:
    own = OwnMetrics.on(server)
    totals = await own.read_totals(days=days)
    wanted = {row: value for row, value in sorted(totals.items()) if name in (None, row[0])}
    counted: Rows = [
        {"name": one, "tags": tags, "sum": value}
        for (one, tags), value in wanted.items()
        if tags not in (SUCCESS, ERROR)
    ]
    timed = []
    for fromkey in dict.fromkeys(row[0] for row in wanted if row[1] in (SUCCESS, ERROR)):
        found = await own.read_timing(fromkey, days=days)
        timed.append({**_timing(fromkey, found), "errors": round(wanted.get((fromkey, ERROR), 0))})
    return counted, timed


def _timing(name: str, found: Histogram) -> dict[str, Any]:
    quantiles = {f"{label}_ms": found.quantile(share) for label, share in QUANTILES.items()}
    return {"name": name, "count": found.count, "mean_ms": found.mean_ms, **quantiles}


def _show(counted: Rows, timed: Rows) -> None:
    if counted:
        columns = OWN if "tags" in counted[0] else COUNTED
        grid(columns, [_counted_cells(row) for row in counted])
    if timed:
        grid(TIMED, [_timed_cells(row) for row in timed])


def _counted_cells(row: dict[str, Any]) -> list[str]:
    points = row.get("points", [])
    bars = sparkline(points, peak=max((n or 0 for n in points), default=0))
    value = row["sum"]
    shown = f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"
    return [row["name"] or "(others)", row.get("tags", bars), shown]


def _timed_cells(row: dict[str, Any]) -> list[str]:
    shown = [_duration(row[key]) for key in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")]
    return [row["name"], f"{row['count']:,}", str(row.get("errors", "")), *shown]


def _duration(ms: float | None) -> str:
    if ms is None:
        return ""
    return f"{ms:.3g} ms" if ms < 1000 else f"{ms / 1000:,.3g} s"


QUALITY_BARS = 24
COLUMNS = ["handler", "field", "type", "now", "before", "over time"]


def quality(job: Job, where: Where = SERVER, as_json: Json = False) -> None:
    """Show how often each field of the items is filled, now and before.

    "Before" is the best stretch of earlier pages. The last bars stand for fewer pages than the
    first ones. The exit code is 1 if the quality dropped.
    """

    async def work(frontier: Frontier) -> tuple[list[History], QualityOptions]:
        return await read_quality(frontier), await thresholds(frontier)

    histories, options = on_job(where, job, work)
    bad = judge(histories, options)
    lines = [line for history in histories for line in lines_of(history, options.min_pages)]
    if as_json:
        emit_json({"job": job, "bad": bad, "rows": [line.document() for line in lines]})
    elif not lines:
        say(f"{job}: no page has been handled yet.")
    else:
        grid(COLUMNS, [_cells(line) for line in lines])
        for finding in bad:
            remark("bad", str(finding), style="bold red")
    raise Exit(1 if bad else 0)


def _cells(line: Line) -> list[str]:
    peak = 1.0 if line.is_share else max((one or 0 for one in line.history), default=0)
    shown = [_shown(line, line.now), "" if line.before is None else _shown(line, line.before)]
    bars = sparkline(_fewer(line.history), peak=peak)
    return [line.handler, line.field, line.type, *shown, bars]


def _shown(line: Line, value: float) -> str:
    return f"{value:.0%}" if line.is_share else f"{value:.3g}"


def _fewer(values: list[float | None]) -> list[float | None]:
    """Averages of neighbours, so that the chart fits into a terminal."""
    size = math.ceil(len(values) / QUALITY_BARS)
    groups = (values[at : at + size] for at in range(0, len(values), size or 1))
    known = ([one for one in group if one is not None] for group in groups)
    return [fmean(group) if group else None for group in known]


HOSTS_COLUMNS = ["host", "pending", "in flight", "pages", "delay", "because", "next request"]


def hosts(
    job: Job,
    limit: Annotated[int, Option(min=1, max=5000, help="Maximum number to show.")] = 20,
    where: Where = SERVER,
    as_json: Json = False,
) -> None:
    """Show the hosts with the longest delays, and why."""

    async def work(frontier: Frontier) -> tuple[list[HostFacts], JobOptions, float]:
        found = await slowest_hosts(frontier, limit)
        return found, frontier.options, await frontier.server_time()

    found, options, now = on_job(where, job, work)
    if as_json:
        emit_json([host_row(host, options) for host in found])
    elif found:
        grid(HOSTS_COLUMNS, [list(_hosts_cells(host, options, now)) for host in found])
    else:
        say(f"{job}: no hosts yet.")


def _hosts_cells(facts: HostFacts, options: JobOptions, now: float) -> Iterator[object]:
    delay, wait_s = facts.delay(options), facts.opens_at(options) - now
    yield from (facts.name, facts.queued, facts.in_flight, facts.pages)
    yield f"{delay.seconds:g} s"
    yield delay.why
    yield f"in {wait_s:,.1f} s" if wait_s > 0 else "now"
