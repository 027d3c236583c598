"""The verdict: what becomes of a request, given how its attempt went. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING

from skitter.engine.blocks import blocker_of
from skitter.engine.redirects import way_to, why_not_sent
from skitter.errors import ConnectRefused, shorten
from skitter.fetch.retry_after import retry_after_s
from skitter.frontier.delay import Incident
from skitter.spider.run import HandlerError
from skitter.spider.sitemap import SITEMAP, may_be_missing
from skitter.urls import join

if TYPE_CHECKING:
    from skitter.errors import SkitterError
    from skitter.model import Request, Response

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
    handler_tries: int = 2  # for errors that may pass: spider/passing.py
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
