"""What Scrapy's downloader did, for the figures: noted in one thread, sent by another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import Request, signals

from skitter.metrics.recorder import status_class

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from skitter.scrapy.mailbox import Mailbox


class Exchanges:
    """Hears of each request that the downloader ends."""

    def __init__(self, crawler: Crawler, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
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

    def _note_end(self, request: Request, **_: Any) -> None:
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
    """Its address may have a password."""
    return "proxy" if request.meta.get("proxy") else ""
