"""The verdict: what becomes of a request, given how its attempt went. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from skitter.fetch.retry_after import retry_after_s
from skitter.urls import join

if TYPE_CHECKING:
    from skitter.errors import SkitterError
    from skitter.model import Request, Response

REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Statuses that may be another one later: overload, maintenance, races. RFC 9110, RFC 6585.
PASSING = frozenset({408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524})
#: Of these, the ones by which a host asks for a rest.
OVERLOAD = frozenset({429, 503})


SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Where patience ends."""

    max_redirects: int = 10
    longest_rest_s: float = 3600.0
    handler_tries: int = 2  # a page that came incomplete once may be whole the next time


@dataclass(frozen=True, slots=True)
class Handle:
    """Run the handler."""


@dataclass(frozen=True, slots=True)
class Follow:
    """The page is elsewhere: its address is a link of this one."""

    url: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again later; `block_s` is a rest for the whole host."""

    reason: str
    after_s: float | None = None
    block_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Bury:
    """It will not get better."""

    reason: str


def judge_response(
    request: Request, response: Response, policy: Policy, *, now: float
) -> Handle | Follow | Retry | Bury:
    """Judge an answer by its status and headers."""
    status = response.status
    if status in REDIRECTS:
        return _judge_redirect(request, response, policy)
    if status < 400:
        return Handle()
    reason = f"{status} {_phrase(status)}".strip()
    if status not in PASSING:
        return Bury(reason)
    rest_s = retry_after_s(response.header("retry-after"), now=now, longest_s=policy.longest_rest_s)
    if rest_s is None:
        return Retry(reason)
    return Retry(reason, after_s=rest_s, block_s=rest_s if status in OVERLOAD else 0.0)


def _judge_redirect(request: Request, response: Response, policy: Policy) -> Follow | Bury:
    location = response.header("location")
    target = join(response.url, location) if location else None
    if target is None:
        return Bury(f"{response.status} redirect to nowhere")
    if redirects_of(request) >= policy.max_redirects:
        return Bury(f"more than {policy.max_redirects} redirects")
    if target == request.url:
        return Bury("it redirects to itself")
    return Follow(target)


def judge_error(error: SkitterError, *, attempt: int, policy: Policy) -> Retry | Bury:
    """Judge a fetch that failed, or a handler that did."""
    if error.retryable:
        return Retry(str(error))
    if is_handler_error(error) and attempt < policy.handler_tries:
        return Retry(str(error))
    return Bury(str(error))


def is_handler_error(error: SkitterError) -> bool:
    return hasattr(error, "handler")


def redirects_of(request: Request) -> int:
    """How many redirects led here."""
    count = request.meta.get(REDIRECT_COUNT, 0)
    return count if isinstance(count, int) else 0


def redirected(request: Request, url: str, *, status: int) -> Request:
    """The request that a redirect asks for. RFC 9110 15.4: after 303, and after 301 and 302 to a
    POST, it is a GET without body; what was meant for one host is not told to another."""
    changes: dict[str, Any] = {
        "url": url,
        "meta": request.meta | {REDIRECT_COUNT: redirects_of(request) + 1},
    }
    if (status == 303 and request.method != "HEAD") or (
        status in (301, 302) and request.method == "POST"
    ):
        changes |= {"method": "GET", "body": b""}
    if urlsplit(url).netloc != urlsplit(request.url).netloc:
        kept = {k: v for k, v in request.headers.items() if k.lower() not in SECRET_HEADERS}
        changes["headers"] = kept
    return msgspec.structs.replace(request, **changes)


#: Key of `Request.meta` that counts them.
REDIRECT_COUNT = "_redirects"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
