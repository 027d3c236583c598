from __future__ import annotations

from typing import TYPE_CHECKING, Self

from skitter.engine.rendering import for_browser
from skitter.engine.stages.stage import Stage

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Outcome, Visit
    from skitter.model import Lease


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
