"""The request that a redirect asks for, and what of it another origin may see. Pure.

As in browsers (RFC 9110 15.4), it is a GET without a body after 303, and after 301 and 302 to a
POST. Unlike in browsers, headers and bodies contain somebody's keys, and a stranger says where they
go. So beyond the origin (scheme, host and port) it was made for, a request is a GET or HEAD without
a body, with only headers that say what we accept; or it is not sent at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.urls import origin_of

if TYPE_CHECKING:
    from skitter.model import Request

CONDITIONAL = frozenset({"if-none-match", "if-modified-since"})
#: The only ones that cross origins: a list of secret ones would miss the next X-Api-Key.
SAFE_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "accept-language", "cache-control", "pragma", "user-agent"}
)
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
#: Key of `Request.meta`.
REDIRECTED_FROM: Final = "_redirected_from"


def way_to(request: Request) -> list[str]:
    """The URLs whose redirects led here, the first one first."""
    way = request.meta.get(REDIRECTED_FROM, [])
    return way if isinstance(way, list) else []


def redirected(request: Request, url: str, *, status: int) -> Request:
    """The request that a redirect asks for."""
    changes: dict[str, Any] = {
        "url": url,
        "meta": request.meta | {REDIRECTED_FROM: [*way_to(request), request.url]},
    }
    if _becomes_get(request.method, status):
        changes |= {"method": "GET", "body": b""}
    if request.visited:  # the ETag and date are the old page's
        kept = request.headers.items()
        changes["headers"] = {name: value for name, value in kept if name not in CONDITIONAL}
        changes["visited"] = None
    if not _is_same_origin(request.url, url):
        changes["headers"] = _safe(request.headers)
    return msgspec.structs.replace(request, **changes)


def why_not_sent(request: Request, url: str, *, status: int) -> str | None:
    """Why a redirect is not followed: it would send more than a GET to another origin."""
    if _becomes_get(request.method, status) or _is_same_origin(request.url, url):
        return None
    if request.method in SAFE_METHODS and not request.body:
        return None
    what = "body" if request.body else request.method
    return f"{status} redirect to {origin_of(url)}: its {what} is not sent to another origin"


def _becomes_get(method: str, status: int) -> bool:
    return (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST")


def _is_same_origin(old: str, new: str) -> bool:
    """Also true for the same host under https: what was sent in the clear is safer there."""
    before, after = origin_of(old), origin_of(new)
    upgraded = before is not None and before.replace("http://", "https://", 1) == after
    return before == after or upgraded


def _safe(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in SAFE_HEADERS}
