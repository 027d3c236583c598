"""Visit: the state of one attempt, shared by its stages, and the outcomes that end it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skitter.engine.verdict import Bury, Follow, Retry, is_refusal
from skitter.errors import SkitterError
from skitter.frontier.sites.learned import REDIRECT, page_facts
from skitter.frontier.transport.messages import ms
from skitter.model import Completion, Failure, Feedback, Lease, Response
from skitter.spider.run import HandlerError, HandlerOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.engine.departures import Gate
    from skitter.engine.verdict import Verdict
    from skitter.fetch.http.fetcher import Leave
    from skitter.fetch.session import Session
    from skitter.model import Request
    from skitter.spider.page import Page
    from skitter.spider.scope import Refused


#: How long a page waits while no name can be looked up.
WAIT_S = 5.0


class Cause(msgspec.Struct, frozen=True):
    """What on_error hooks are told of a failed attempt."""

    error: SkitterError
    response: Response | None = None


class Completed(msgspec.Struct, frozen=True):
    """The page is done. Without `output` its handler did not run: the page is a redirect, with its
    target as the only link, or `skipped` says why."""

    completion: Completion
    output: HandlerOutput | None = None
    skipped: str = ""
    record: Any = None  # skitter.archive.record.Record: the response to keep


class Retried(msgspec.Struct, frozen=True):
    """The request is retried later."""

    failure: Failure
    blocked: bool = False  # by a block page
    handler: str = ""  # that failed
    cause: Cause | None = None  # None: no hook wants to know


class Buried(msgspec.Struct, frozen=True):
    """The request becomes a dead letter."""

    failure: Failure
    handler: str = ""
    cause: Cause | None = None


class Returned(msgspec.Struct, frozen=True):
    """Its turn has not come yet: the request goes back unchanged."""

    lease: Lease
    waits: bool = False  # for WAIT_S


Outcome = Completed | Retried | Buried | Returned
OUTCOMES: Final = (Completed, Retried, Buried, Returned)  # faster to check


class Again(msgspec.Struct, frozen=True):
    """No outcome yet: the visit has another request to send."""


AGAIN: Final = Again()


def lease_of(outcome: Outcome) -> Lease:
    if isinstance(outcome, Completed):
        return outcome.completion.lease
    return outcome.lease if isinstance(outcome, Returned) else outcome.failure.lease


@dataclass(slots=True)
class Visit:
    """One lease, the gate of its requests, and what is sent when it ends. A stage may keep notes of
    its own in `notes`, by its name."""

    lease: Lease  # what was leased
    gate: Gate | None = None  # None: requests leave at any time
    request: Request = field(init=False)  # to be sent
    page: Page = field(init=False)  # to be handled, if it has come to that
    session: Session | None = None  # None: no cookie has come yet
    kept: Response | None = None  # from the archive, in place of the site's
    feedback: Feedback = field(default_factory=Feedback)  # what the frontier learns about the host
    response: Response | None = None  # the last one
    verdict: Verdict | None = None  # on it
    output: HandlerOutput | None = None  # what the handler yielded
    links: Sequence[Request] = ()  # to send with its completion
    again: Sequence[Request] = ()  # those that the frontier has
    error: SkitterError | None = None  # what ended it
    by_robots: str = ""  # what robots.txt says about its use
    usage: str = ""  # what the page says about that
    asked_at: float = 0.0  # when the last fetch began, by the monotonic clock
    notes: dict[str, Any] = field(default_factory=dict)  # a stage's own, by its name

    def __post_init__(self) -> None:
        self.request = self.lease.request

    @property
    def leave(self) -> Leave | None:
        """Called when a request is about to leave: waits for the host's turn."""
        return self.gate.leave if self.gate else None

    @property
    def took_ms(self) -> float | None:
        """Time since the last request left (not the wait for its moment); None: none has left."""
        left_at = max(self.asked_at, self.gate.left_at if self.gate else 0.0)
        return 1000 * (time.monotonic() - left_at) if left_at else None

    @property
    def is_kept(self) -> bool:
        """Whether the last response is from the archive."""
        return self.kept is not None and self.response is self.kept

    def arrive(self, url: str) -> None:
        """The last request has ended."""
        if self.gate:
            self.gate.arrive(url)

    async def close(self, url: str) -> None:
        """The attempt has ended, with or without a response."""
        if self.gate:
            self.gate.arrive(url)
            await asyncio.shield(self.gate.close())

    async def note_response(self, response: Response, verdict: Verdict) -> None:
        """Note what a response says about its host, and pass a rest on to others on its clock."""
        self.response, self.verdict = response, verdict
        if self.session:
            self.session.note(refused=is_refusal(response, verdict))
        self.arrive(response.url)
        # A browser's time is not only the host's.
        is_timed = not (self.lease.request.lane or self.is_kept)
        if self.lease.pace and is_timed and response.status < 500:
            self.feedback.latency_ms = ms(response.elapsed_s)
        if isinstance(verdict, (Retry, Follow)) and verdict.rest_s and not self.is_kept:
            self.feedback.rest_ms = ms(verdict.rest_s)
            if self.gate:
                await self.gate.rest(verdict.rest_s)

    def completed(
        self, output: HandlerOutput | None = None, *, skipped: str = "", **found: Any
    ) -> Completed:
        """The page is done; `found`: links, again and items."""
        if self.response is not None:
            items = len(found.get("items", ()))
            note = skipped or self._redirect(output, found)
            self.feedback.page = page_facts(self.response, items=items, usage=self.usage, note=note)
        completion = Completion(lease=self.lease, feedback=self._learned(), **found)
        return Completed(completion, output, skipped)

    def _redirect(self, output: HandlerOutput | None, found: dict[str, Any]) -> str:
        return "" if output or not found else f"{REDIRECT}{found['links'][0].url}"

    def ended(self, verdict: Retry | Bury) -> Retried | Buried:
        """The outcome of a request that was not handled."""
        failure = Failure(
            lease=self.lease,
            error=verdict.reason,
            after_s=verdict.after_s if isinstance(verdict, Retry) else None,
            feedback=self._learned(),
        )
        handler = self.error.handler if isinstance(self.error, HandlerError) else ""
        if isinstance(verdict, Bury):
            return Buried(failure, handler)
        self.feedback.rest_ms = ms(verdict.rest_s)
        self.feedback.incident = verdict.incident if verdict.of_host else 0
        return Retried(failure, blocked=verdict.blocked, handler=handler)

    def skipped(self, why: Refused, *links: Request) -> Completed:
        """The page is done without its handler, and counted as refused."""
        output = HandlerOutput(refused=[(self.lease.url, why)])
        return self.completed(output, skipped=why.reason, links=links)

    def _learned(self) -> Feedback:
        if self.session:
            self.feedback.session = self.session.news()
        if self.gate:
            self.feedback.left_ms = self.gate.left_ms
            self.feedback.unused_ms = 0 if self.gate.was_used else self.lease.moment_ms
        return self.feedback
