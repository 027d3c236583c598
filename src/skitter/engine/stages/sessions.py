from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from skitter.engine.stages.stage import Stage
from skitter.observe.report import some

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Visit
    from skitter.model import Response


class Sessions(Stage):
    """Opens the session of the request, which keeps the cookies of responses."""

    needs = "--cookies"

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.sessions.options.cookies else None

    async def before(self, visit: Visit) -> None:
        visit.session = await self.parts.sessions.open(visit.lease)

    async def answered(self, visit: Visit, response: Response) -> None:
        store, now = self.parts.sessions, time.time()
        visit.session = store.take(visit.session, visit.lease, response, now=now)

    def tell(self, visit: Visit) -> str:
        return some(len(visit.session.jar.cookies) if visit.session else 0, "cookie")
