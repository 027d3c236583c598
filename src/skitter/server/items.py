"""Stored items: a page of them, or all as a file.

The frontier records where items are stored, but anyone who can write to it could name any file: we
open only what this server was configured with.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from skitter.frontier.admin.items import item_page
from skitter.frontier.admin.sink import find_sink
from skitter.frontier.frontier import Frontier
from skitter.redact import redact
from skitter.server.call import Call
from skitter.server.problems import Refusal
from skitter.server.query import Page, Query
from skitter.server.route import Rows
from skitter.settings import resolve
from skitter.sinks.destination import Destination
from skitter.sinks.rows import row_of
from skitter.sinks.stored import Format, open_export, read_page

LOOK_AT = 5000
PART = 500
PLACE = re.compile(r"(\d{1,5}/\d{1,15}-\d{1,15})?")
MEDIA = {"ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
OF_CELERY = "SKITTER_OUTPUT_"  # the outputs of Celery's workers
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
    return [(one.id, row_of(one).line) for one in await item_page(frontier, after, limit)]


async def _source(call: Call, frontier: Frontier) -> Destination | None:
    """Where to read a job's items from; None: they are in the frontier."""
    held = await find_sink(frontier)
    if not held:
        return None
    job, directory = frontier.job, call.site.server.directory or Path(".skitter")
    ours = Destination(resolve(job=job).output.to or f"{job}.db", job, directory)
    named = (dsn for name, dsn in os.environ.items() if name.startswith(OF_CELERY) and dsn)
    for source in (ours, *(Destination(dsn, job, directory) for dsn in named)):
        if source.place == held:
            return source
    raise Refusal(
        409,
        f"the items of job {job!r} go to {redact(held)}, but this server reads {ours.place}.",
        hint="start `skitter serve` where the crawl was started, or set SKITTER_OUT for it.",
    )


def _matches(row: Item, line: bytes, query: Items) -> bool:
    if query.field:
        found = row.get(query.field)
        text = found if isinstance(found, str) else msgspec.json.encode(found).decode()
        return found is not None and query.where.lower() in text.lower()
    return query.where.lower() in line.decode("utf-8", "replace").lower()
