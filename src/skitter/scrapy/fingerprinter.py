"""REQUEST_FINGERPRINTER_CLASS = "skitter.scrapy.RequestFingerprinter": Skitter's rules for which
URLs are the same page. Tracking parameters and spelling variants of a URL do not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.utils.request import RequestFingerprinter as ScrapyFingerprinter
from scrapy.utils.request import fingerprint as scrapy_fingerprint

from skitter.errors import BadURL
from skitter.identities import our_identity, scrapy_redis_identity

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class RequestFingerprinter:
    """By canonical URL, method and body; by Scrapy's own rules if it is not an http(s) URL."""

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
            return bytes.fromhex(our_identity(request.url, request.method, request.body))
        except BadURL:
            return self._fallback.fingerprint(request)


def identities(url: str) -> list[str]:
    """The identities a URL may have in a Scrapy crawl: from Scrapy's fingerprinter, ours and
    scrapy-redis's. Custom fingerprinters are not covered."""
    request = Request(url)
    return [
        scrapy_fingerprint(request).hex(),
        RequestFingerprinter().fingerprint(request).hex(),
        scrapy_redis_identity(request.url, "GET", b""),
    ]
