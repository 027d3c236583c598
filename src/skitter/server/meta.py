"""The server's health, and the metrics of all jobs."""

from __future__ import annotations

import time

import msgspec
from starlette.responses import Response

from skitter.errors import SkitterError
from skitter.frontier.admin.exposition import exposition, presence
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
