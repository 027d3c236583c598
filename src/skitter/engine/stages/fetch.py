"""Who fetches a page, and the request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from skitter.engine.rendering import for_browser
from skitter.engine.stages.download import download, part_of
from skitter.engine.stages.stage import Stage
from skitter.fetch.session import SESSION

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit
    from skitter.model import Lease, Response


class Lanes(Stage):
    """Passes pages that need a browser on to the lane that has one."""

    needs = "a job whose spider renders pages"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        is_on = parts.spider.renders and not parts.config.archive.offline
        return cls(parts) if parts.frontier and is_on else None

    async def before(self, visit: Visit) -> Outcome | None:
        if visit.lease.request.lane or not await self._needs_browser(visit.lease):
            return None
        return visit.completed(links=[for_browser(visit.lease.request)])

    async def _needs_browser(self, lease: Lease) -> bool:
        parts, request = self.parts, lease.request
        if parts.adaptive.applies(request):
            return await parts.adaptive.needs_browser(lease)
        return parts.config.workers.only == "http" and parts.spider.in_lane(request) is not request


class Fetch(Stage):
    """Sends the request when its host's moment has come: by HTTP or a browser, on a route."""

    async def fetch(self, visit: Visit) -> Response:
        if visit.kept and visit.response is None:
            return visit.kept
        visit.asked_at, session, request = time.monotonic(), visit.session, visit.request
        SESSION.set(session)
        sent = session.dress(request, now=time.time()) if session else request
        with self.parts.spans.fetch(request):
            if (part := part_of(visit)) is not None:
                return await download(self.parts.client, sent, part, leave=visit.leave)
            return await self.parts.fetcher.fetch(sent, leave=visit.leave)

    def tell(self, visit: Visit) -> str:
        if (response := visit.response) is None:
            return str(visit.error or "no answer")
        took_ms, size = 1000 * response.elapsed_s, len(response.body)
        return f"{response.status} with {size:,} bytes, after {took_ms:,.0f} ms"
