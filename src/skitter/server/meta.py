"""The server about itself: its health."""

from __future__ import annotations

import msgspec

from skitter.server.call import Call


class Health(msgspec.Struct, frozen=True):
    """Whether the server of the frontier answers."""

    ok: bool


async def healthz(call: Call) -> Health:
    """Whether this server and the frontier's answer."""
    await call.site.server.command("PING")
    return Health(ok=True)
