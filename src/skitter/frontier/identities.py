"""How Scrapy tells pages apart, for those who add requests to a Scrapy job without running Scrapy.

A job of Scrapy nodes has the name of their fingerprinter in its layout. Whoever adds a request to
it, from the command line, by the HTTP API or from a program, gives it the identity that they would.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from skitter.errors import BadURL, UsageError
from skitter.urls import fingerprint, identify

#: Names of fingerprinters. Any other is the class of a project.
SCRAPY: Final = "scrapy"
SCRAPY_REDIS: Final = "scrapy-redis"
OURS: Final = "skitter"

Identify = Callable[[str, str, bytes], str]  # URL, method and body -> identity


def scrapy_identity(url: str, method: str, body: bytes) -> str:
    """As Scrapy's own fingerprinter computes it."""
    return _digest(url, method, body, headers={})


def scrapy_redis_identity(url: str, method: str, body: bytes) -> str:
    """As scrapy-redis 0.9 computes it: like Scrapy's, without headers."""
    return _digest(url, method, body)


def our_identity(url: str, method: str, body: bytes) -> str:
    """As skitter.scrapy.RequestFingerprinter computes it."""
    number = fingerprint(identify(url).canonical, method=method, body=body)
    return int(number).to_bytes(8, "big").hex()


_KNOWN: Final[dict[str, Identify]] = {
    SCRAPY: scrapy_identity,
    SCRAPY_REDIS: scrapy_redis_identity,
    OURS: our_identity,
}


def identity_by(fingerprinter: str, job: str) -> Identify:
    """Raises UsageError if only a node can tell."""
    if fingerprinter not in _KNOWN:
        raise UsageError(
            f"{job} is a job of Scrapy nodes, which tell pages apart with {fingerprinter}: only "
            f"they can add a URL. `redis-cli lpush skitter:{job}:feed URL` hands it to one."
        )
    return _KNOWN[fingerprinter]


def _digest(url: str, method: str, body: bytes, **more: Any) -> str:
    try:
        from w3lib.url import canonicalize_url, safe_url_string
    except ImportError:
        from skitter.extras import install

        how = install("scrapy")
        raise UsageError(f"a job of Scrapy nodes takes URLs only with Scrapy: {how}") from None
    try:
        canonical = canonicalize_url(safe_url_string(url))
    except ValueError as error:
        raise BadURL(url, f"{error}.") from None
    known = {"method": method.upper(), "url": canonical, "body": body.hex(), **more}
    return hashlib.sha1(json.dumps(known, sort_keys=True).encode()).hexdigest()
