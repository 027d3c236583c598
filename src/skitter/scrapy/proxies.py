"""Which proxies a stored request may name.

Whoever can write to Redis must not send a node's requests, with the passwords in them, through a
machine of theirs or of the node's own network. What a downloader middleware chooses is not stored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from skitter.errors import UsageError
from skitter.redact import redact
from skitter.scrapy.mailbox import Entry

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.settings import BaseSettings

#: Strict, since Scrapy and urllib disagree about where the host is in `http://a?@b`.
_ADDRESS: Final = re.compile(
    r"(?:https?://)?(?:[^@/?#\\\s]*@)?([\w.-]+|\[[\da-f:.]+\])(:\d+)?/?", re.ASCII | re.IGNORECASE
)

_CHOSEN: Final = ("proxy", "_auth_proxy")  # the second is Scrapy's: whose password is in the header


class StoredProxies:
    """Those that SKITTER_PROXIES names; all, if it is `*` or there is no guard."""

    def __init__(self, settings: BaseSettings) -> None:
        self._named = {str(one).lower() for one in settings.getlist("SKITTER_PROXIES")}
        if not settings.getbool("SKITTER_GUARD", default=True):
            self._named.add("*")

    def check(self, meta: Any) -> None:
        """Raises UsageError for a proxy that is not named."""
        proxy = meta.get("proxy") if isinstance(meta, dict) else None
        if proxy and not self._permits(str(proxy)):
            raise UsageError(
                f"its meta chooses the proxy {redact(str(proxy))!r}, which could be anybody's: add "
                "its host to SKITTER_PROXIES, or choose it in a downloader middleware."
            )

    def _permits(self, proxy: str) -> bool:
        found = _ADDRESS.fullmatch(proxy)
        if not found:
            return "*" in self._named
        host, port = found[1].lower(), found[2] or ""
        return not self._named.isdisjoint(("*", host, host + port))


def without_chosen(request: Request, origin: object) -> Request:
    """The request without a proxy that a middleware chose for the page it is from, as retries,
    redirects and `meta=response.meta` have it: the middleware chooses again. Nor with the proxy's
    password, which Scrapy moves to a header: without that proxy, the site would get it."""
    chosen = origin.proxy if isinstance(origin, Entry) else None
    if not chosen or request.meta.get("proxy") != chosen:
        return request
    stored = request.replace(
        meta={name: value for name, value in request.meta.items() if name not in _CHOSEN}
    )
    stored.headers.pop(b"Proxy-Authorization", None)
    return stored
