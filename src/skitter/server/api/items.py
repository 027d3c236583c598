"""What a job has: items, metrics, log, quality; and the health of the server."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from starlette.responses import Response, StreamingResponse

from skitter.errors import SkitterError
from skitter.frontier.frontier import Frontier
from skitter.frontier.items import RejectedItem, item_page, read_rejected
from skitter.frontier.records.exposition import CONTENT_TYPE, exposition, presence
from skitter.frontier.records.health import read_quality, thresholds
from skitter.frontier.records.metrics import History, TableRow, read_table
from skitter.frontier.workers import LOG_PAGE, Event, last_log, read_log
from skitter.observe.logs import loudness
from skitter.observe.metrics import COUNTERS, TIMINGS, WEEK_S
from skitter.observe.quality import Finding, judge, lines_of
from skitter.redact import redact_text, redact_tree
from skitter.server.call import Call, EntryId, First, Page, Query
from skitter.server.channels import Chart
from skitter.server.problems import Refusal
from skitter.server.route import Rows
from skitter.server.stored import LAST, ShownChange, shown, source_of
from skitter.sinks.destination import Destination
from skitter.sinks.export import Format, open_export, read_feed, read_page
from skitter.sinks.registry import is_database
from skitter.sinks.rows import row_of

LOOK_AT = 5000
PART = 500
PLACE = re.compile(r"(\d{1,5}/\d{1,15}-\d{1,15})?")
MEDIA = {"ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
Item = dict[str, Any]  # _id, _url, _fetched_at and its own fields
Lines = list[tuple[str, bytes]]


class Items(Page, frozen=True, kw_only=True):
    """`where`: text in the row's JSON, ignoring case; `field`: search only this field."""

    where: str = ""
    field: str = ""


class Export(Query, frozen=True, kw_only=True):
    """NDJSON, or CSV with formulas escaped."""

    format: Format = "ndjson"


async def items(call: Call, query: Items) -> Rows[Item]:
    """The job's items: the stored ones, or those waiting for a loader.

    If many do not match, a page may have few rows or none; `next` says that there is more.
    """
    frontier = await call.frontier()
    source = await _source(call, frontier)
    rows, after = list[Item](), query.after
    for _ in range(LOOK_AT // PART):
        limit = min(PART, query.limit) if not query.where else PART
        page = await _page(frontier, source, after, limit)
        for place, line in page:
            after = place
            row = msgspec.json.decode(line)
            if _matches(row, line, query):
                rows.append(row)
            if len(rows) >= query.limit:
                return Rows(rows=rows, next=after)
        if len(page) < limit:
            return Rows(rows=rows)
    return Rows(rows=rows, next=after)


async def export_items(call: Call, query: Export) -> Response:
    """All items stored so far, as a file."""
    frontier = await call.frontier()
    source = await _source(call, frontier)
    if source is None:
        raise Refusal(
            409, "this job has no stored items yet: `skitter run` or `skitter load` stores them."
        )
    parts = _parts(source, query.format)
    first = await anext(parts, b"")  # fail before the answer starts, if at all
    name = f'attachment; filename="{frontier.job}.{query.format}"'

    async def all_parts() -> AsyncIterator[bytes]:
        yield first
        async for part in parts:
            yield part

    headers = {"content-disposition": name}
    return StreamingResponse(all_parts(), headers=headers, media_type=MEDIA[query.format])


async def _parts(source: Destination, format: Format) -> AsyncIterator[bytes]:
    async with open_export(source.store, job=source.job, format=format) as parts:
        async for part in parts:
            yield part


async def _page(frontier: Frontier, source: Destination | None, after: str, limit: int) -> Lines:
    if source is not None:
        return await read_page(source.store, job=frontier.job, after=after, limit=limit)
    if not PLACE.fullmatch(after):
        raise Refusal(422, "`after` must be the `next` of the page before.", field="after")
    return [(result.id, row_of(result).line) for result in await item_page(frontier, after, limit)]


async def _source(call: Call, frontier: Frontier) -> Destination | None:
    where, is_operators = call.site.server.directory, call.token.is_operators
    return await source_of(frontier, where, is_operators=is_operators)


def _matches(row: Item, line: bytes, query: Items) -> bool:
    if query.field:
        found = row.get(query.field)
        text = found if isinstance(found, str) else msgspec.json.encode(found).decode()
        return found is not None and query.where.lower() in text.lower()
    return query.where.lower() in line.decode("utf-8", "replace").lower()


class ChartQuery(Query, frozen=True, kw_only=True):
    """Names of counters and timings, how far back to go, and the most points to return."""

    names: str = "pages,items"
    since_s: Annotated[float, msgspec.Meta(gt=0, le=WEEK_S)] = 3600.0
    points: Annotated[int, msgspec.Meta(ge=1, le=600)] = 600


class By(Query, frozen=True, kw_only=True):
    """What to group by, over whole hours, up to two days."""

    by: Literal["host", "worker", "route", "session", "outcome", "status"] = "host"
    since_s: Annotated[float, msgspec.Meta(gt=0, le=2 * 86_400)] = 3600.0


class LogLines(First, frozen=True, kw_only=True):
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


async def logs(call: Call, query: LogLines) -> Rows[Event]:
    """The log of all workers, oldest line first."""
    frontier = await call.frontier()
    if query.after:
        found = await read_log(frontier, query.after, min(query.limit, LOG_PAGE))
        more = found[-1].id if len(found) == query.limit else None
    else:
        found, more = await last_log(frontier, query.limit), None
    least = loudness(query.level)
    return Rows(rows=[event for event in found if loudness(event.level) >= least], next=more)


async def quality(call: Call) -> Quality:
    """How well each field is filled, now and before."""
    frontier = await call.frontier()
    options = await thresholds(frontier)
    histories = await read_quality(frontier)
    rows = [line.document() for one in histories for line in lines_of(one, options.min_pages)]
    return Quality(job=frontier.job, bad=judge(histories, options), rows=rows)


async def changes(call: Call, query: Page) -> Rows[ShownChange]:
    """What later visits found, newest first: fields that changed, new and gone pages."""
    frontier = await call.frontier()
    if query.after and not (query.after.isdecimal() and len(query.after) < 19):
        raise Refusal(422, "`after` must be the `next` of the page before.", field="after")
    source = await _source(call, frontier)
    if source is None or not is_database(source.store):
        return Rows(rows=[])
    before = int(query.after) if query.after else LAST
    found = await read_feed(source.store, job=frontier.job, before=before, limit=query.limit)
    more = str(found[-1].seq) if len(found) == query.limit else None
    return Rows(rows=[shown(change) for change in found], next=more)


async def rejected(call: Call, query: First) -> Rows[RejectedItem]:
    """Items that do not fit their type or cannot be stored, newest first."""
    found = await read_rejected(await call.frontier(), query.limit)
    return Rows(rows=[_masked(item) for item in found])


def _masked(item: RejectedItem) -> RejectedItem:
    return msgspec.structs.replace(item, url=redact_text(item.url), item=redact_tree(item.item))


class Health(msgspec.Struct, frozen=True):
    """Whether Redis answers."""

    ok: bool


async def healthz(call: Call) -> Health:
    """Whether this server and its Redis answer."""
    await call.site.server.command("PING")
    return Health(ok=True)


async def metrics(call: Call) -> Response:
    """The metrics of all jobs, in Prometheus format. While Redis is away: `skitter_server_up 0`,
    and the figures that were read last."""
    site = call.site
    try:
        text = await site.presence.through(exposition(site.server))
    except SkitterError as error:
        if not error.retryable:
            raise
        at, text = site.figures
        up = presence(up=False, read_at=at)
    else:
        site.figures = (time.time(), text)
        up = presence(up=True, read_at=site.figures[0])
    return Response(up + text, media_type=CONTENT_TYPE)
