"""Sessions, routes and Celery tasks."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from skitter.extras import install
from skitter.frontier.sessions import LiveSession, live_sessions
from skitter.server.call import Call
from skitter.server.problems import Refusal
from skitter.server.query import First
from skitter.server.route import Rows
from skitter.server.site import Site
from skitter.worker.route_table import RouteRow, route_rows

TASK_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)


async def sessions(call: Call, query: First) -> Rows[LiveSession]:
    """The job's live sessions: how often each was used and refused."""
    return Rows(rows=await live_sessions(await call.frontier(), query.limit))


async def routes(call: Call) -> Rows[RouteRow]:
    """What each proxy delivered, in total and per domain. All jobs of the server share them."""
    await call.frontier()
    return Rows(rows=await route_rows(call.site.server))


async def task(call: Call) -> dict[str, Any]:
    """The state of a Celery task, by its id."""
    identity = call.path("id")
    if not TASK_ID.fullmatch(identity):
        raise Refusal(404, "this is not a task id.", field="id")
    if call.site.where is None:
        raise Refusal(501, "only `skitter serve` knows tasks.")
    found: dict[str, Any] = msgspec.to_builtins(
        await asyncio.to_thread(_status, call.site, identity)
    )
    return found


def _status(site: Site, identity: str) -> Any:
    try:
        from skitter.celery.client import status
        from skitter.celery.factory import make_app
    except ImportError:
        raise Refusal(501, f"Celery is not installed: {install('celery')}") from None
    site.celery = site.celery or make_app(site.where)
    return status(identity, app=site.celery)
