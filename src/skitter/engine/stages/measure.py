from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.engine.stages.stage import Stage
from skitter.engine.verdict import Bury, Handle, Retry
from skitter.errors import FetchError, FetchTimeout, NoRoute, ProxyFault
from skitter.fetch.session import ROUTE
from skitter.observe.metrics import status_class

if TYPE_CHECKING:
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Outcome, Visit
    from skitter.observe.metrics import Exchange


class Measure(Stage):
    """Counts and times requests, for the figures of the crawl."""

    async def judged(self, visit: Visit, verdict: Verdict) -> None:
        response, figures = visit.response, self.parts.figures
        assert response is not None
        figures.add_exchange(
            _exchange(visit, _outcome(verdict), status_class(response.status)),
            size=response.moved_bytes or len(response.body),
            ms=1000 * response.elapsed_s,
        )
        if response.first_byte_s:
            figures.time("first_byte", 1000 * response.first_byte_s)
        if response.connect_s:
            figures.time("connect", 1000 * response.connect_s)

    async def ended(self, visit: Visit, outcome: Outcome) -> None:
        if isinstance(visit.error, FetchError):
            self.parts.figures.add_exchange(_failed(visit, visit.error), ms=visit.took_ms)

    def tell(self, visit: Visit) -> str:
        if visit.response is None:
            return "no response to count"
        first_ms = 1000 * visit.response.first_byte_s
        return f"counted; its first byte came after {first_ms:,.0f} ms" if first_ms else "counted"


def _failed(visit: Visit, error: FetchError) -> Exchange:
    if isinstance(error, FetchTimeout):
        return _exchange(visit, "timeout")
    return _exchange(visit, "proxy_error" if isinstance(error, ProxyFault | NoRoute) else "error")


def _outcome(verdict: Verdict) -> str:
    if isinstance(verdict, Handle):  # the usual case
        return "ok"
    if isinstance(verdict, Retry):
        return "blocked" if verdict.blocked else "http_error"
    return "http_error" if isinstance(verdict, Bury) else "ok"


def _exchange(visit: Visit, outcome: str, status: str = "none") -> Exchange:
    session = visit.session
    known = session.id if session and session.number else ""  # else it has no number yet
    return outcome, status, visit.lease.host, ROUTE.get(), known
