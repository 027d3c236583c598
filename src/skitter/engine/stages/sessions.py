from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from skitter.engine.stages.stage import Stage

if TYPE_CHECKING:
    from skitter.engine.parts import Parts
    from skitter.engine.visit import Visit
    from skitter.model import Response


class Sessions(Stage):
    """Opens the session of the request, which keeps the cookies of responses."""

    needs = "--cookies"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.store = parts.sessions

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        return cls(parts) if parts.sessions.options.cookies else None

    async def before(self, visit: Visit) -> None:
        visit.session = await self.store.open(visit.lease)

    async def answered(self, visit: Visit, response: Response) -> None:
        visit.session = self.store.take(visit.session, visit.lease, response, now=time.time())

    def tell(self, visit: Visit) -> str:
        session = visit.session
        return "no cookies" if session is None else f"in the session {session.id}"
