"""Records what Scrapy's downloader did, for the figures; the node's thread sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import Request, signals
from scrapy.http import Response

from skitter.engine.departures import TooEarly
from skitter.metrics.recorder import status_class
from skitter.scrapy.answers import incident_of, learn, opened, why_unseen

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from skitter.engine.verdict import Policy
    from skitter.scrapy.departures import Downloads
    from skitter.scrapy.mailbox import Entry, Mailbox


class Exchanges:
    """Observes each request that the downloader finishes."""

    def __init__(
        self, crawler: Crawler, mailbox: Mailbox, downloads: Downloads, policy: Policy
    ) -> None:
        self._mailbox, self._downloads, self._policy = mailbox, downloads, policy
        self._answered: WeakSet[Request] = WeakSet()
        crawler.signals.connect(self._note_answer, signals.response_downloaded)
        crawler.signals.connect(self._note_end, signals.request_left_downloader)

    def _note_answer(self, response: Response, request: Request, **_: Any) -> None:
        self._answered.add(request)
        outcome = "ok" if response.status < 400 else "http_error"
        status = status_class(response.status)
        latency_s = request.meta.get("download_latency")
        took_ms = None if latency_s is None else 1000 * float(latency_s)
        self._add(request, outcome, status, size=len(response.body), ms=took_ms)
        if entry := self._mailbox.active.get(request):
            self._learn(entry, response, request)

    def note_result(self, entry: Entry, result: Any, request: Request) -> None:
        """For `why`. By now a response is decompressed, or it came from a cache."""
        if isinstance(result, Response) and entry.answer is not None:
            self._learn(entry, result, request)
        elif isinstance(result, Response):
            entry.answer = opened(result, request)
        elif isinstance(result, Request):
            entry.note = why_unseen(request, result)
        else:
            entry.is_returned = isinstance(result.value, TooEarly)

    def _learn(self, entry: Entry, response: Response, request: Request) -> None:
        learn(entry, opened(response, request), self._policy, proxied=bool(_route(request)))

    def note_failure(self, request: Request, error: Exception) -> None:
        """Sending failed, or no response came."""
        if (entry := self._mailbox.active.get(request)) and not _route(request):
            entry.feedback.incident = incident_of(error)

    def _note_end(self, request: Request, **_: Any) -> None:
        self._downloads.arrive(request)
        if request in self._answered:
            self._answered.discard(request)
        else:
            self._add(request, "error", "none")

    def _add(
        self, request: Request, outcome: str, status: str, *, size: int = 0, ms: float | None = None
    ) -> None:
        exchange = (outcome, status, _host(request), _route(request), "")
        self._mailbox.exchanges.append((exchange, size, ms))


def _host(request: Request) -> str:
    return str(request.meta.get("download_slot", ""))


def _route(request: Request) -> str:
    """Not the proxy's address, which may contain a password."""
    return "proxy" if request.meta.get("proxy") else ""
