"""What each handler found, field by field and over time: quality."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import typer

from skitter.cli.common import Directory, Job, Json, Redis, on_job, settings
from skitter.cli.output import emit_json, grid, remark, say
from skitter.frontier.admin.quality import read_quality
from skitter.frontier.frontier import Frontier
from skitter.quality import History, judge, sparkline, total
from skitter.settings import resolve

BARS = 24
COLUMNS = ["handler", "field", "type", "now", "before", "over time"]


def quality(
    job: Job, redis: Redis = None, directory: Directory = None, as_json: Json = False
) -> None:
    """Show how well each field is filled, now and before. Exit code 1 if something got bad.

    Before is the best stretch of pages; of the bars, the last ones are of the fewest pages.
    """

    async def work(frontier: Frontier) -> list[History]:
        return await read_quality(frontier)

    options = resolve(job=job).quality
    histories = on_job(settings(redis, directory), job, work)
    bad = judge(histories, options)
    lines = [one for history in histories for one in _lines(history, options.min_pages)]
    if as_json:
        emit_json({"job": job, "bad": bad, "rows": [line.as_json() for line in lines]})
    elif not lines:
        say(f"{job}: no page was handled yet.")
    else:
        grid(COLUMNS, [line.cells() for line in lines])
        for one in bad:
            remark("bad", str(one), style="bold red")
    raise typer.Exit(1 if bad else 0)


@dataclass(frozen=True, slots=True)
class _Line:
    """One number of a handler over time: items per page, a share of block pages, a fill rate."""

    handler: str
    field: str
    type: str
    now: float
    before: float | None  # None: there was too little
    history: list[float | None]
    is_share: bool = True

    def as_json(self) -> dict[str, Any]:
        values = {"now": self.now, "before": self.before, "history": self.history}
        return {"handler": self.handler, "field": self.field, "type": self.type, **values}

    def cells(self) -> list[str]:
        most = 1.0 if self.is_share else max((one or 0 for one in self.history), default=0)
        shown = [self._shown(self.now), "" if self.before is None else self._shown(self.before)]
        bars = sparkline(_fewer(self.history), most=most)
        return [self.handler, self.field, self.type, *shown, bars]

    def _shown(self, value: float) -> str:
        return f"{value:.0%}" if self.is_share else f"{value:.3g}"


def _fewer(values: list[float | None]) -> list[float | None]:
    """The means of neighbours, so that a line fits into a terminal."""
    size = math.ceil(len(values) / BARS)
    groups = (values[at : at + size] for at in range(0, len(values), size or 1))
    known = ([one for one in group if one is not None] for group in groups)
    return [fmean(group) if group else None for group in known]


def _lines(history: History, min_pages: int) -> Iterator[_Line]:
    name, windows = history.handler, history.windows
    now, before = history.split(min_pages)
    if not now.answers:
        now, before = total(windows), []
    best = max((one.per_page for one in before), default=None)
    pages = [one.per_page if one.pages else None for one in windows]
    yield _Line(name, "(items per page)", "", now.per_page, best, pages, is_share=False)
    if any(one.blocked for one in windows):
        least = min((one.blocked_share for one in before), default=None)
        shares = [one.blocked_share if one.answers else None for one in windows]
        yield _Line(name, "(block pages)", "", now.blocked_share, least, shares)
    for field in history.fields:
        was = max((one.fill(field) for one in before), default=None)
        fills = [one.fill(field) if one.items else None for one in windows]
        kind = now.type_of(field) or total(windows).type_of(field)
        yield _Line(name, field, kind, now.fill(field), was, fills)
