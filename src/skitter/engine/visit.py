"""Visit: the state of one attempt, shared by its steps."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skitter.engine.outcomes import Buried, Completed, Retried
from skitter.engine.verdict import Bury, Follow, Retry, is_refusal
from skitter.frontier.pages import REDIRECT, page_facts
from skitter.frontier.wire import ms
from skitter.model import Completion, Failure, Feedback
from skitter.spider.run import HandlerError, HandlerOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.engine.departures import Gate
    from skitter.engine.verdict import Verdict
    from skitter.errors import SkitterError
    from skitter.fetch.client import Leave
    from skitter.fetch.session import Session
    from skitter.model import Lease, Request, Response
    from skitter.page import Page
    from skitter.spider.scope import Refused


@dataclass(slots=True)
class Visit:
    """One lease, the gate of its requests, and what is sent when it ends. A stage may keep notes of
    its own in `notes`, by its name."""

    lease: Lease
    gate: Gate | None = None  # None: requests leave at any time
    request: Request = field(init=False)  # to be sent
    page: Page = field(init=False)  # to be handled, if it has come to that
    session: Session | None = None  # None: no cookie has come yet
    feedback: Feedback = field(default_factory=Feedback)
    response: Response | None = None  # the last one
    verdict: Verdict | None = None  # on it
    output: HandlerOutput | None = None
    links: Sequence[Request] = ()  # to send with its completion
    again: Sequence[Request] = ()  # those that the frontier has
    error: SkitterError | None = None  # what ended it
    by_robots: str = ""  # what robots.txt says about its use
    usage: str = ""  # what the page says about that
    asked_at: float = 0.0  # when the last fetch began, by the monotonic clock
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.request = self.lease.request

    @property
    def leave(self) -> Leave | None:
        return self.gate.leave if self.gate else None

    @property
    def took_ms(self) -> float:
        """Time since the last request left, without the wait for its moment."""
        left_at = self.gate.left_at if self.gate else 0.0
        return 1000 * (time.monotonic() - max(self.asked_at, left_at))

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
        is_plain = not self.lease.request.lane  # a browser's time is not only the host's
        if self.lease.pace and is_plain and response.status < 500:
            self.feedback.latency_ms = ms(response.elapsed_s)
        if isinstance(verdict, (Retry, Follow)) and verdict.rest_s:
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
        return self.feedback
