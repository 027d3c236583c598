"""Which requests are the same: the dupefilter, and our fingerprinter."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.request import RequestFingerprinter as ScrapyFingerprinter
from scrapy.utils.request import fingerprint as scrapy_fingerprint

from skitter.errors import BadURL, UsageError
from skitter.frontier.identities import OURS, SCRAPY, our_identity, scrapy_redis_identity
from skitter.scrapy.compatibility import DUPEFILTER, DUPEFILTERS, refuse_overrides

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

    from skitter.engine.outbox import LinkMemory


class RequestFingerprinter:
    """Skitter's rules for which URLs are the same page, by canonical URL, method and body.

        REQUEST_FINGERPRINTER_CLASS = "skitter.scrapy.RequestFingerprinter"

    Tracking parameters and spelling variants of a URL do not count. Scrapy's own rules apply to
    what is not an http(s) URL.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        self._fallback = ScrapyFingerprinter(crawler)
        self._known: WeakKeyDictionary[Request, bytes] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def fingerprint(self, request: Request) -> bytes:
        """Equal bytes for requests of the same page."""
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


logger = logging.getLogger(__name__)


class RFPDupeFilter(BaseDupeFilter):
    """Scrapy's fingerprints, the frontier's seen-set.

    Whether a request was seen is decided by the frontier, in the same step that adds it. For your
    own rules, override `request_fingerprint` or, better, set REQUEST_FINGERPRINTER_CLASS.
    """

    def __init__(self, fingerprinter: Any, *, debug: bool = False) -> None:
        self.fingerprinter = fingerprinter
        self.debug = debug
        self.logdupes = True
        self.memory: LinkMemory[bytes] | None = None  # what this node knows for sure
        self._seen: set[bytes] = set()  # without our scheduler, all that is known

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(
            crawler.request_fingerprinter, debug=crawler.settings.getbool("DUPEFILTER_DEBUG")
        )

    def request_fingerprint(self, request: Request) -> str:
        """The same text for equal requests."""
        return self.fingerprint(request).hex()

    def fingerprint(self, request: Request) -> bytes:
        """Equal bytes for equal requests, by the crawler's fingerprinter."""
        found: bytes = self.fingerprinter.fingerprint(request)
        return found

    def request_seen(self, request: Request) -> bool:
        """True: the frontier is known to have it. False: the frontier will decide. With another
        scheduler, it is seen if this process has seen it, as with Scrapy's own filter."""
        key = self.key_of(request)
        if self.memory is not None:
            return key in self.memory
        was_seen = key in self._seen
        self._seen.add(key)
        return was_seen

    def key_of(self, request: Request) -> bytes:
        """The fingerprint, by `request_fingerprint` if a subclass overrides it."""
        if type(self).request_fingerprint is not RFPDupeFilter.request_fingerprint:
            return self.request_fingerprint(request).encode()
        return self.fingerprint(request)

    def go_on_as_scrapy_redis(self) -> None:
        """The job was adopted: its seen-set holds scrapy-redis fingerprints."""
        self.fingerprint = self._fingerprint_of_scrapy_redis  # type: ignore[method-assign]

    def _fingerprint_of_scrapy_redis(self, request: Request) -> bytes:
        return bytes.fromhex(scrapy_redis_identity(request.url, request.method, request.body))

    def identify(self, url: str, method: str, body: bytes) -> str:
        """The same for a request that did not come from Scrapy."""
        return self.key_of(Request(url, method=method, body=body)).hex()

    @property
    def name(self) -> str:
        """Its rule, for those who add requests without running Scrapy: identities.py. Empty: no
        request is a duplicate."""
        if type(self).request_fingerprint is not RFPDupeFilter.request_fingerprint:
            return _full_name(type(self))
        kind = type(self.fingerprinter)
        known = {ScrapyFingerprinter: SCRAPY, RequestFingerprinter: OURS}
        return known.get(kind) or _full_name(kind)

    def log(self, request: Request, spider: Spider) -> None:
        """Log every duplicate with DUPEFILTER_DEBUG, else only the first."""
        if self.debug:
            logger.debug("Filtered duplicate request: %s", request, extra={"spider": spider})
        elif self.logdupes:
            logger.debug(
                "Filtered duplicate request: %s - no more duplicates will be shown "
                "(see DUPEFILTER_DEBUG to show all duplicates)",
                request,
                extra={"spider": spider},
            )
            self.logdupes = False


class NoDupeFilter(RFPDupeFilter):
    """DUPEFILTER_CLASS = scrapy.dupefilters.BaseDupeFilter: no request is a duplicate."""

    name = ""


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def make_dupefilter(crawler: Crawler) -> RFPDupeFilter:
    """By DUPEFILTER_CLASS. Raises UsageError for one that the frontier cannot replace."""
    from scrapy.utils.misc import load_object

    named = crawler.settings.get("DUPEFILTER_CLASS")
    if isinstance(named, type):
        named = _full_name(named)
    if not named or named in DUPEFILTERS:
        kind = NoDupeFilter if named and named.endswith(".BaseDupeFilter") else RFPDupeFilter
        return kind.from_crawler(crawler)
    found = load_object(crawler.settings["DUPEFILTER_CLASS"])
    if isinstance(found, type) and issubclass(found, RFPDupeFilter):
        refuse_overrides(found, RFPDupeFilter, DUPEFILTER)
        return found.from_crawler(crawler)
    raise UsageError(
        f"DUPEFILTER_CLASS = {named!r} cannot be honoured, because the frontier decides what was "
        "seen: put your rule into REQUEST_FINGERPRINTER_CLASS, or override request_fingerprint of "
        "skitter.scrapy.RFPDupeFilter."
    )
