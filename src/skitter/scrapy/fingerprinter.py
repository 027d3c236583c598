"""REQUEST_FINGERPRINTER_CLASS = "skitter.scrapy.RequestFingerprinter": Skitter's rules of what is
the same page. Tracking parameters do not count, nor does the spelling of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

from scrapy.utils.request import RequestFingerprinter as ScrapyFingerprinter

from skitter.errors import BadURL
from skitter.urls import fingerprint, identify

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class RequestFingerprinter:
    """By canonical URL, method and body; what is not an http(s) URL goes by Scrapy's own rules."""

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._fallback = ScrapyFingerprinter(crawler)
        self._known: WeakKeyDictionary[Request, bytes] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def fingerprint(self, request: Request) -> bytes:
        if (known := self._known.get(request)) is None:
            known = self._known[request] = self._compute(request)
        return known

    def _compute(self, request: Request) -> bytes:
        try:
            canonical = identify(request.url).canonical
        except BadURL:
            return self._fallback.fingerprint(request)
        number = fingerprint(canonical, method=request.method, body=request.body)
        return int(number).to_bytes(8, "big")
