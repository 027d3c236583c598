"""Under which identities a URL may be known to a Scrapy crawl: for those who ask from outside."""

from __future__ import annotations

from scrapy import Request
from scrapy.utils.request import fingerprint

from skitter.scrapy.adopt import scrapy_redis_fingerprint
from skitter.scrapy.fingerprinter import RequestFingerprinter


def identities(url: str) -> list[str]:
    """By Scrapy's fingerprinter, by ours and by scrapy-redis's; one of the user's is not known."""
    request = Request(url)
    return [
        fingerprint(request).hex(),
        RequestFingerprinter().fingerprint(request).hex(),
        scrapy_redis_fingerprint("GET", request.url, b""),
    ]
