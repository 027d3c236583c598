"""What each handler found, by field and over time: quality."""

from __future__ import annotations

import math
from statistics import fmean

import typer

from skitter.cli.common import Directory, Job, Json, Redis, on_job, settings
from skitter.cli.console import remark
from skitter.cli.output import emit_json, grid, say
from skitter.frontier.admin.quality import read_quality, thresholds
from skitter.frontier.frontier import Frontier
from skitter.quality import History, Line, judge, lines_of, sparkline
from skitter.settings import QualityOptions

BARS = 24
COLUMNS = ["handler", "field", "type", "now", "before", "over time"]


def quality(
    job: Job, redis: Redis = None, directory: Directory = None, as_json: Json = False
) -> None:
    """Show how often each field of the items is filled, now and before.

    "Before" is the best stretch of earlier pages. The last bars stand for fewer pages than the
    first ones. The exit code is 1 if the quality dropped.
    """

    async def work(frontier: Frontier) -> tuple[list[History], QualityOptions]:
        return await read_quality(frontier), await thresholds(frontier)

    histories, options = on_job(settings(redis, directory), job, work)
    bad = judge(histories, options)
    lines = [one for history in histories for one in lines_of(history, options.min_pages)]
    if as_json:
        emit_json({"job": job, "bad": bad, "rows": [line.document() for line in lines]})
    elif not lines:
        say(f"{job}: no page has been handled yet.")
    else:
        grid(COLUMNS, [_cells(line) for line in lines])
        for one in bad:
            remark("bad", str(one), style="bold red")
    raise typer.Exit(1 if bad else 0)


def _cells(line: Line) -> list[str]:
    peak = 1.0 if line.is_share else max((one or 0 for one in line.history), default=0)
    shown = [_shown(line, line.now), "" if line.before is None else _shown(line, line.before)]
    bars = sparkline(_fewer(line.history), peak=peak)
    return [line.handler, line.field, line.type, *shown, bars]


def _shown(line: Line, value: float) -> str:
    return f"{value:.0%}" if line.is_share else f"{value:.3g}"


def _fewer(values: list[float | None]) -> list[float | None]:
    """Averages of neighbours, so that the chart fits into a terminal."""
    size = math.ceil(len(values) / BARS)
    groups = (values[at : at + size] for at in range(0, len(values), size or 1))
    known = ([one for one in group if one is not None] for group in groups)
    return [fmean(group) if group else None for group in known]
