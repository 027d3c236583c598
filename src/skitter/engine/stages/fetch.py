from __future__ import annotations

import time
from typing import TYPE_CHECKING

from skitter.engine.stages.stage import Stage
from skitter.fetch.session import SESSION

if TYPE_CHECKING:
    from skitter.engine.visit import Visit
    from skitter.model import Response


class Fetch(Stage):
    """Sends the request when its host's moment has come: by HTTP or a browser, on a route."""

    async def fetch(self, visit: Visit) -> Response:
        visit.asked_at, session, request = time.monotonic(), visit.session, visit.request
        SESSION.set(session)
        sent = session.dress(request, now=time.time()) if session else request
        with self.parts.spans.fetch(request):
            return await self.parts.fetcher.fetch(sent, leave=visit.leave)

    def tell(self, visit: Visit) -> str:
        if (response := visit.response) is None:
            return str(visit.error or "no answer")
        took_ms, size = 1000 * response.elapsed_s, len(response.body)
        return f"{response.status} with {size:,} bytes, after {took_ms:,.0f} ms"
