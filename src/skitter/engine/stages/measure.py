"""Exchange: how one request of an attempt went, for the figures. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.engine.verdict import Bury, Handle, Retry
from skitter.errors import FetchTimeout, NoRoute, ProxyFault
from skitter.fetch.session import ROUTE
from skitter.metrics.recorder import status_class

if TYPE_CHECKING:
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Visit
    from skitter.errors import FetchError
    from skitter.metrics.recorder import Exchange
    from skitter.model import Response


def answered(visit: Visit, response: Response, verdict: Verdict) -> Exchange:
    return _exchange(visit, _outcome(verdict), status_class(response.status))


def failed(visit: Visit, error: FetchError) -> Exchange:
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
