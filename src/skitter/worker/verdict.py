"""The verdict: what becomes of a request, given how its attempt went. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING

from skitter.errors import ConnectRefused, shorten
from skitter.fetch.retry_after import retry_after_s
from skitter.frontier.delay import Incident
from skitter.spider.run import HandlerError
from skitter.spider.sitemap import SITEMAP, may_be_missing
from skitter.urls import join
from skitter.worker.blocks import blocker_of
from skitter.worker.redirects import way_to, why_not_sent

if TYPE_CHECKING:
    from skitter.errors import SkitterError
    from skitter.model import Request, Response

REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Statuses that may be another one later: overload, maintenance, races. RFC 9110, RFC 6585.
PASSING = frozenset({408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524})
#: Of these, the ones by which a host asks for a rest.
OVERLOAD = frozenset({429, 503})

FORBIDDEN = 403
#: What counts against a session.
REFUSALS = frozenset({401, 403, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Where patience ends."""

    max_redirects: int = 10
    longest_rest_s: float = 3600.0
    handler_tries: int = 2  # a page that came incomplete once may be whole the next time
    blocked_rest_s: float = 60.0  # for a host that shows a block page
    has_routes: bool = False  # several: what one is denied, another may get
    accept: tuple[str, ...] = ()  # content types, as text/*; none: every type


@dataclass(frozen=True, slots=True)
class Handle:
    """Run the handler."""


@dataclass(frozen=True, slots=True)
class Follow:
    """The page is elsewhere: its address is a link of this one. Its host may want a rest first."""

    url: str
    rest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Skip:
    """It is of a type that the spider does not want: done, without its handler."""

    reason: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again later; `rest_s` is a rest for the whole host."""

    reason: str
    after_s: float | None = None
    rest_s: float = 0.0
    incident: int = 0  # the host has had enough
    of_host: bool = True  # or only of the route that we came by

    @property
    def blocked(self) -> bool:
        """By a guard: nobody saw the page."""
        return self.incident == Incident.BLOCKED


@dataclass(frozen=True, slots=True)
class Bury:
    """It will not get better."""

    reason: str


Verdict = Handle | Skip | Follow | Retry | Bury


def judge_response(request: Request, response: Response, policy: Policy, *, now: float) -> Verdict:
    """Judge an answer by its status, its headers, and the look of a block page."""
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
    """A 403 is for good, unless another route may be welcome."""
    if status == FORBIDDEN and policy.has_routes:
        return Retry(reason, of_host=False)
    return Bury(reason)


def _judge_type(response: Response, policy: Policy) -> Handle | Skip:
    if not policy.accept:
        return Handle()
    stated = (response.header("content-type") or "").partition(";")[0].strip().lower()
    if not stated or any(fnmatchcase(stated, wanted) for wanted in policy.accept):
        return Handle()
    return Skip(f"{stated} is not wanted")


def _judge_redirect(
    request: Request, response: Response, policy: Policy, *, now: float
) -> Follow | Bury:
    location = response.header("location")
    target = join(response.url, location) if location else None
    if target is None:
        return Bury(f"{response.status} redirect to nowhere")
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
    # RFC 9110 10.2.3: with a redirect, the least time to wait before it is followed.
    rest_s = retry_after_s(response.header("retry-after"), now=now, longest_s=policy.longest_rest_s)
    return Follow(target, rest_s or 0.0)


def is_refusal(response: Response, verdict: object) -> bool:
    """Whether a site turned the session away, and not just this page."""
    return response.status in REFUSALS or (isinstance(verdict, Retry) and verdict.blocked)


def judge_error(error: SkitterError, *, attempt: int, policy: Policy) -> Retry | Bury:
    """Judge a fetch that failed, or a handler that did."""
    if error.retryable:
        refused = isinstance(error, ConnectRefused)
        return Retry(_reason(error), incident=Incident.REFUSED if refused else 0)
    is_final = isinstance(error, HandlerError) and error.is_final
    if isinstance(error, HandlerError) and not is_final and attempt < policy.handler_tries:
        return Retry(_reason(error))
    return Bury(_reason(error))


def _reason(error: SkitterError) -> str:
    """What it says, without the URL: whoever shows the reason shows that beside it."""
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
