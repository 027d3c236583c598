"""A job's records: its metrics over time, its log, the quality of its items."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from skitter.frontier.admin.items import RejectedItem, read_rejected
from skitter.frontier.admin.log import LOG_PAGE, Event, last_log, read_log
from skitter.frontier.admin.quality import read_quality, thresholds
from skitter.frontier.metrics import History, TableRow, read_table
from skitter.logs import loudness
from skitter.metrics import COUNTERS, TIMINGS
from skitter.metrics.slots import WEEK_S
from skitter.quality import Finding, judge, lines_of
from skitter.redact import redact_text, redact_tree
from skitter.server.call import Call
from skitter.server.charts import Chart
from skitter.server.problems import Refusal
from skitter.server.query import EntryId, First, Query
from skitter.server.route import Rows


class ChartQuery(Query, frozen=True, kw_only=True):
    """Names of counters and timings, how far back to go, and the most points to return."""

    names: str = "pages,items"
    since_s: Annotated[float, msgspec.Meta(gt=0, le=WEEK_S)] = 3600.0
    points: Annotated[int, msgspec.Meta(ge=1, le=600)] = 600


class By(Query, frozen=True, kw_only=True):
    """What to group by, over whole hours, up to two days."""

    by: Literal["host", "worker", "route", "session", "outcome", "status"] = "host"
    since_s: Annotated[float, msgspec.Meta(gt=0, le=2 * 86_400)] = 3600.0


class Lines(First, frozen=True, kw_only=True):
    """`after`: the id of your last line; without it, the end of the log."""

    after: EntryId = ""
    level: Literal["debug", "info", "warning", "error"] = "debug"


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How well each field is filled, now and before; `bad`: what got worse."""

    job: str
    bad: list[Finding]
    rows: list[dict[str, Any]]


async def history(call: Call, query: ChartQuery) -> History:
    """Counters and timings over time, for charts."""
    names = [name for name in query.names.split(",") if name]
    if strange := sorted({*names} - {*COUNTERS, *TIMINGS}):
        known = ", ".join([*COUNTERS, *TIMINGS])
        raise Refusal(422, f"there is no metric {strange[0]!r}: use {known}.", field="names")
    frontier = await call.frontier()
    chart = Chart(frontier.job, tuple(names), query.since_s, query.points)
    return await call.site.charts.read(frontier, chart)


async def figures(call: Call, query: By) -> Rows[TableRow]:
    """Requests by host, worker, route, session, outcome or status class: how many succeeded, and
    how long they took. p95_ms is exact to within a factor of 2: 64 to 128 ms, 128 to 256, ..."""
    return Rows(rows=await read_table(await call.frontier(), query.by, since_s=query.since_s))


async def logs(call: Call, query: Lines) -> Rows[Event]:
    """The log of all workers, oldest line first."""
    frontier = await call.frontier()
    if query.after:
        found = await read_log(frontier, query.after, min(query.limit, LOG_PAGE))
        more = found[-1].id if len(found) == query.limit else None
    else:
        found, more = await last_log(frontier, query.limit), None
    least = loudness(query.level)
    return Rows(rows=[one for one in found if loudness(one.level) >= least], next=more)


async def quality(call: Call) -> Quality:
    """How well each field is filled, now and before."""
    frontier = await call.frontier()
    options = await thresholds(frontier)
    histories = await read_quality(frontier)
    rows = [line.document() for one in histories for line in lines_of(one, options.min_pages)]
    return Quality(job=frontier.job, bad=judge(histories, options), rows=rows)


async def rejected(call: Call, query: First) -> Rows[RejectedItem]:
    """Items that do not fit their type or cannot be stored, newest first."""
    found = await read_rejected(await call.frontier(), query.limit)
    return Rows(rows=[_masked(one) for one in found])


def _masked(one: RejectedItem) -> RejectedItem:
    return msgspec.structs.replace(one, url=redact_text(one.url), item=redact_tree(one.item))
