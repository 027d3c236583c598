"""The server's health, and the metrics of all jobs."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from skitter.frontier.admin.exposition import exposition
from skitter.metrics.prometheus import CONTENT_TYPE
from skitter.server.call import Call


class Health(msgspec.Struct, frozen=True):
    """Whether Redis answers."""

    ok: bool


async def healthz(call: Call) -> Health:
    """Whether this server and its Redis answer."""
    await call.site.server.command("PING")
    return Health(ok=True)


async def metrics(call: Call) -> Response:
    """The metrics of all jobs, in Prometheus format."""
    return Response(await exposition(call.site.server), media_type=CONTENT_TYPE)
