"""A dupefilter for those who go back: scrapy-redis, reading what `skitter release` wrote.

DUPEFILTER_CLASS = "skitter.scrapy.way_back.RFPDupeFilter"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy.utils.misc import load_object

from skitter.errors import UsageError
from skitter.frontier.identities import SCRAPY_REDIS, scrapy_redis_identity
from skitter.scrapy.dupefilter import RFPDupeFilter as OurDupeFilter
from skitter.urls import fingerprint_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider

NAME = "skitter.scrapy.way_back.RFPDupeFilter"
try:
    from scrapy_redis.dupefilter import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
        RFPDupeFilter as TheirDupeFilter,
    )
except ImportError:

    class TheirDupeFilter:  # type: ignore[no-redef]
        """This module can be read without scrapy-redis."""

        def __init__(self, *_: object, **__: object) -> None:
            raise UsageError(
                f"DUPEFILTER_CLASS = {NAME!r} needs scrapy-redis: pip install scrapy-redis"
            )


class RFPDupeFilter(TheirDupeFilter):  # type: ignore[misc,unused-ignore]
    """scrapy-redis's own; only what it calls a request is different, if a job was released here:
    the frontier keeps 63 bits of a request, and scrapy-redis 160."""

    identify: Callable[[Request], str] | None = None

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        found: Any = super().from_spider(spider)
        rule = found.server.get(f"{found.key}:by")
        if rule:
            found.identify = _identify_by(rule if isinstance(rule, str) else rule.decode(), spider)
        return found  # type: ignore[no-any-return]

    def request_fingerprint(self, request: Request) -> str:
        if self.identify is None:
            return str(super().request_fingerprint(request))
        return fingerprint_of(self.identify(request))


def _identify_by(rule: str, spider: Spider) -> Callable[[Request], str]:
    """As the job's nodes did. Raises UsageError if the settings have changed since."""
    if rule == SCRAPY_REDIS:
        return lambda request: scrapy_redis_identity(request.url, request.method, request.body)
    ours = OurDupeFilter.from_crawler(spider.crawler)
    if ours.name != rule and "." in rule:
        kind = load_object(rule)
        if isinstance(kind, type) and issubclass(kind, OurDupeFilter):
            ours = kind.from_crawler(spider.crawler)
    if ours.name != rule:
        raise UsageError(
            f"the pages that were fetched before are told apart by {rule}, and "
            f"REQUEST_FINGERPRINTER_CLASS now says {ours.name}: set it as it was."
        )
    return lambda request: ours.key_of(request).hex()
