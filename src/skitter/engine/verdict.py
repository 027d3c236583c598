"""The verdict: what becomes of a request, given how its attempt went. Pure: no I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.errors import ConnectRefused, shorten
from skitter.fetch.http.exchange import retry_after_s
from skitter.frontier.delays import Incident
from skitter.spider.run import HandlerError
from skitter.spider.sitemap import SITEMAP, may_be_missing
from skitter.urls import join, origin_of

if TYPE_CHECKING:
    from skitter.errors import SkitterError
    from skitter.model import Request, Response


#: Statuses that guards use; these responses are always searched.
SUSPICIOUS: Final = frozenset({202, 401, 403, 405, 406, 418, 429, 503})
#: Any other page is searched only if it is this small: block pages are short, and pages of
#: ordinary size must not pay for them.
SMALL_BYTES: Final = 4 * 1024
LARGE_BYTES: Final = 256 * 1024

#: Header, text in its value, name of the guard.
_HEADERS: Final = (
    ("cf-mitigated", "challenge", "Cloudflare"),
    ("x-amzn-waf-action", "", "AWS WAF"),
    ("x-datadome", "protected", "DataDome"),
)
#: Marks of a block page, in any response.
_MARKS: Final = (
    (b"_cf_chl_opt", "Cloudflare"),
    (b"<title>Just a moment...</title>", "Cloudflare"),
    (b"captcha-delivery.com", "DataDome"),
    (b"px-captcha", "PerimeterX"),
    (b"Incapsula incident ID", "Imperva"),
    (b"Pardon Our Interruption", "Imperva"),
    (b"errors.edgesuite.net", "Akamai"),
    (b"awsWafCookieDomainList", "AWS WAF"),
    (b"unusual traffic from your", "Google"),
)
#: Marks that ordinary pages have too; they mean a block only with a suspicious status.
_HINTS: Final = (
    (b"hcaptcha.com", "hCaptcha"),
    (b"www.google.com/recaptcha", "reCAPTCHA"),
    (b"challenges.cloudflare.com", "Cloudflare"),
    (b"/cdn-cgi/styles/cf.errors", "Cloudflare"),
    (b"_Incapsula_Resource", "Imperva"),
    (b"Reference&#32;&#35;", "Akamai"),
)


def blocker_of(response: Response) -> str | None:
    """Who blocks us, if this is a block page: what a bot guard sends instead of the page.

    A mark must not occur on ordinary pages behind the same guard: a site behind Cloudflare or
    DataDome has their scripts on every page, and a login form may have a captcha.
    """
    suspicious = response.status in SUSPICIOUS
    if len(response.body) > (LARGE_BYTES if suspicious else SMALL_BYTES):
        return None
    if not suspicious and response.status != 200:
        return None
    if suspicious and (name := _by_header(response)):
        return name
    if "html" not in (response.header("content-type") or "html"):
        return None
    marks = _MARKS + _HINTS if suspicious else _MARKS
    return next((name for mark, name in marks if mark in response.body), None)


def _by_header(response: Response) -> str | None:
    for header, words, name in _HEADERS:
        value = response.header(header)
        if value is not None and words in value:
            return name
    return None


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
    """The request that a redirect asks for.

    As in browsers (RFC 9110 15.4), it is a GET without a body after 303, and after 301 and 302 to a
    POST. Unlike in browsers, headers and bodies contain somebody's keys, and a stranger says where
    they go. So beyond the origin (scheme, host and port) it was made for, a request is a GET or
    HEAD without a body, with only headers that say what we accept; or it is not sent at all.
    """
    changes: dict[str, Any] = {
        "url": url,
        "meta": request.meta | {REDIRECTED_FROM: [*way_to(request), request.url]},
        "redo": "",
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


REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Statuses that may change later: overload, maintenance, races. RFC 9110, RFC 6585.
PASSING = frozenset({408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524})
#: Those with which a host asks for a rest.
OVERLOAD = frozenset({429, 503})

FORBIDDEN = 403
#: Statuses that count against a session.
REFUSALS = frozenset({401, 403, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When to give up, and how long to rest."""

    max_redirects: int = 10
    longest_rest_s: float = 3600.0
    handler_tries: int = 2  # for errors that may pass: spider/quota.py
    blocked_rest_s: float = 60.0  # for a host that shows a block page
    has_routes: bool = False  # several: one may get what another is denied
    accept: tuple[str, ...] = ()  # content types such as text/*; empty: all


@dataclass(frozen=True, slots=True)
class Handle:
    """Run the handler."""


@dataclass(frozen=True, slots=True)
class Follow:
    """The page is elsewhere: its URL becomes a link. Its host may want a rest first."""

    url: str
    rest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Skip:
    """The spider does not want this content type: done, without its handler."""

    reason: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry later; `rest_s` is a rest for the whole host."""

    reason: str
    after_s: float | None = None
    rest_s: float = 0.0
    incident: int = 0  # a sign that the host has had enough
    of_host: bool = True  # False: it is about the route only

    @property
    def blocked(self) -> bool:
        """Whether a bot guard answered instead of the page."""
        return self.incident == Incident.BLOCKED


@dataclass(frozen=True, slots=True)
class Bury:
    """Retrying would not help."""

    reason: str


Verdict = Handle | Skip | Follow | Retry | Bury


def judge_response(request: Request, response: Response, policy: Policy, *, now: float) -> Verdict:
    """Judge a response by its status, its headers, and the marks of a block page."""
    status = response.status
    if status in REDIRECTS:
        return _judge_redirect(request, response, policy, now=now)
    blocker = blocker_of(response)
    if status < 400 and not blocker:
        return Handle() if request.handler == SITEMAP else _judge_type(response, policy)
    reason = f"{status} {_phrase(status)}".strip()
    if status not in PASSING and not blocker:
        return Handle() if may_be_missing(request) else _judge_final(status, reason, policy)
    rest_s = retry_after_s(response.header("retry-after"), now=now, longest_s=policy.longest_rest_s)
    if blocker:
        why = f"blocked by {blocker}: {reason}"
        if policy.has_routes:
            return Retry(why, incident=Incident.BLOCKED, of_host=False)
        rest_s = max(policy.blocked_rest_s, rest_s or 0.0)
        return Retry(why, after_s=rest_s, rest_s=rest_s, incident=Incident.BLOCKED)
    if status not in OVERLOAD:
        return Retry(reason, after_s=rest_s)
    return Retry(reason, after_s=rest_s, rest_s=rest_s or 0.0, incident=status)


def _judge_final(status: int, reason: str, policy: Policy) -> Retry | Bury:
    """A 403 is final, unless another route may be let in."""
    if status == FORBIDDEN and policy.has_routes:
        return Retry(reason, of_host=False)
    return Bury(reason)


def _judge_type(response: Response, policy: Policy) -> Handle | Skip:
    if not policy.accept:
        return Handle()
    stated = (response.header("content-type") or "").partition(";")[0].strip().lower()
    if not stated or any(fnmatchcase(stated, wanted) for wanted in policy.accept):
        return Handle()
    return Skip(f"{stated} is not a wanted content type")


def _judge_redirect(
    request: Request, response: Response, policy: Policy, *, now: float
) -> Follow | Bury:
    location = response.header("location")
    target = join(response.url, location) if location else None
    if target is None:
        return Bury(f"{response.status} redirect without a usable location")
    if target == request.url:
        return Bury("it redirects to itself")
    way = way_to(request)
    if target in way:
        circle = [*way[way.index(target) :], request.url, target]
        return Bury(f"redirect loop: {' -> '.join(shorten(url) for url in circle)}")
    if len(way) >= policy.max_redirects:
        return Bury(f"more than {policy.max_redirects} redirects")
    problem = why_not_sent(request, target, status=response.status)
    if problem:
        return Bury(problem)
    # RFC 9110 10.2.3: on a redirect, the minimum wait before following it.
    rest_s = retry_after_s(response.header("retry-after"), now=now, longest_s=policy.longest_rest_s)
    return Follow(target, rest_s or 0.0)


def is_refusal(response: Response, verdict: object) -> bool:
    """Whether the site refused the session, not just this page."""
    return response.status in REFUSALS or (isinstance(verdict, Retry) and verdict.blocked)


def judge_error(error: SkitterError, *, attempt: int, policy: Policy) -> Retry | Bury:
    """Judge a failed fetch or a failed handler."""
    if error.retryable:
        refused = isinstance(error, ConnectRefused)
        after_s = getattr(error, "after_s", None)
        incident = Incident.REFUSED if refused else 0
        return Retry(_reason(error), after_s=after_s, incident=incident)
    is_final = isinstance(error, HandlerError) and error.is_final
    if isinstance(error, HandlerError) and not is_final and attempt < policy.handler_tries:
        return Retry(_reason(error))
    return Bury(_reason(error))


def _reason(error: SkitterError) -> str:
    """The message without the URL, which is always shown beside it."""
    text, url = str(error), shorten(getattr(error, "url", ""))
    for spelled, left in (
        ((f" on {url}", ""), (f"{url}: ", ""), (f" ({url}, ", " (")) if url else ()
    ):
        text = text.replace(spelled, left, 1)
    return text


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
