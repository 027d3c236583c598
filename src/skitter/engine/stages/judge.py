"""What becomes of a response, and how it is counted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from skitter.engine.departures import PATIENCE_AFTER_REDIRECT_S
from skitter.engine.stages.stage import Stage
from skitter.engine.verdict import Bury, Follow, Handle, Retry, Skip, judge_response, redirected
from skitter.engine.visit import AGAIN
from skitter.errors import FetchError, FetchTimeout, NoRoute, ProxyFault
from skitter.fetch.session import ROUTE
from skitter.observe.metrics import status_class
from skitter.spider.page import Page
from skitter.spider.scope import FILE, Refused
from skitter.urls import identify

if TYPE_CHECKING:
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Again, Outcome, Visit
    from skitter.model import Request, Response
    from skitter.observe.metrics import Exchange


class Judge(Stage):
    """Decides what becomes of a response, by status, headers and signs of a block page.

    A redirect becomes a link, to be fetched once and in its turn.
    """

    async def judge(self, visit: Visit, response: Response) -> Verdict:
        verdict = judge_response(visit.request, response, self.parts.policy, now=time.time())
        await visit.note_response(response, verdict)
        return verdict

    async def judged(self, visit: Visit, verdict: Verdict) -> Outcome | Again | None:
        assert visit.response is not None
        if isinstance(verdict, Handle):
            visit.page = Page(visit.request, visit.response)
            moved = visit.page.url != visit.request.url and not visit.is_kept
            problem = await self._ask_again(visit, visit.page.url) if moved else None
            return visit.ended(problem) if problem else None
        if isinstance(verdict, Skip):
            return visit.completed(skipped=verdict.reason)
        if isinstance(verdict, Follow):
            return self._follow(visit, verdict, status=visit.response.status)
        return visit.ended(verdict)

    def tell(self, visit: Visit) -> str:
        verdict = visit.verdict
        if isinstance(verdict, Handle):
            return "a page to handle"
        if isinstance(verdict, Follow):
            return f"a redirect to {verdict.url}"
        return verdict.reason if verdict else ""

    def _follow(self, visit: Visit, verdict: Follow, *, status: int) -> Outcome | Again:
        lease = visit.lease
        link = redirected(visit.request, verdict.url, status=status)
        if self._is_same_page(visit.request, link):
            return self._fetch_again(visit, link, status=status, rest_s=verdict.rest_s)
        said = self.parts.allows(link, parent=lease.url)
        if isinstance(said, Refused) and said.kind == FILE and lease.request.parent:
            return visit.skipped(said)
        if problem := self._out_of_scope(link, parent=lease.url):
            return visit.ended(Bury(problem))
        return visit.completed(links=[msgspec.structs.replace(link, priority=lease.priority)])

    def _is_same_page(self, request: Request, link: Request) -> bool:
        rules = self.parts.spider.canonical
        return (
            link.method == request.method
            and identify(link.url, rules).canonical == identify(request.url, rules).canonical
        )

    def _fetch_again(
        self, visit: Visit, link: Request, *, status: int, rest_s: float
    ) -> Outcome | Again:
        """It has the same identity: as a link it would count as known."""
        if rest_s:
            why = f"{status} redirect to the same page, after {rest_s:g} s"
            return visit.ended(Retry(why, after_s=rest_s, rest_s=rest_s))
        if visit.gate:
            visit.gate.patience_s = PATIENCE_AFTER_REDIRECT_S
        visit.request = link
        return AGAIN

    def _out_of_scope(self, link: Request, *, parent: str) -> str | None:
        """Why a redirect is not followed, if it leads where the crawl may not go."""
        said = self.parts.allows(link, parent=parent)
        if isinstance(said, Refused) and said.kind != FILE:  # a seed's file was asked for
            return f"it redirects out of scope, to {link.url}: {said.reason}"
        return None

    async def _ask_again(self, visit: Visit, url: str) -> Retry | Bury | None:
        """Why a page is not handled, if the browser ended up where it may not go."""
        moved = msgspec.structs.replace(visit.lease.request, url=url)
        if problem := self._out_of_scope(moved, parent=visit.lease.url):
            return Bury(problem)
        robots = self.parts.robots
        if not robots.is_obeyed:
            return None
        rules = await robots.rules(url, identify(url).host)
        return None if await robots.may_fetch(rules, url) else robots.verdict(rules, url)


class Measure(Stage):
    """Counts and times requests, for the figures of the crawl."""

    async def judged(self, visit: Visit, verdict: Verdict) -> None:
        response, figures = visit.response, self.parts.figures
        assert response is not None
        if visit.is_kept:
            return
        figures.add_exchange(
            _exchange(visit, _outcome(verdict), status_class(response.status)),
            size=response.moved_bytes or len(response.body),
            ms=1000 * response.elapsed_s,
        )
        if response.first_byte_s:
            figures.time("first_byte", 1000 * response.first_byte_s)
        if response.connect_s:
            figures.time("connect", 1000 * response.connect_s)

    async def ended(self, visit: Visit, outcome: Outcome) -> None:
        if isinstance(visit.error, FetchError):
            self.parts.figures.add_exchange(_failed(visit, visit.error), ms=visit.took_ms)

    def tell(self, visit: Visit) -> str:
        if visit.response is None:
            return "no response to count"
        first_ms = 1000 * visit.response.first_byte_s
        return f"counted; its first byte came after {first_ms:,.0f} ms" if first_ms else "counted"


def _failed(visit: Visit, error: FetchError) -> Exchange:
    if isinstance(error, FetchTimeout):
        return _exchange(visit, "timeout")
    return _exchange(visit, "proxy_error" if isinstance(error, ProxyFault | NoRoute) else "error")


def _outcome(verdict: Verdict) -> str:
    if isinstance(verdict, Handle):  # the usual case
        return "ok"
    if isinstance(verdict, Retry):
        return "blocked" if verdict.blocked else "http_error"
    return "http_error" if isinstance(verdict, Bury) else "ok"


def _exchange(visit: Visit, outcome: str, status: str = "none") -> Exchange:
    session = visit.session
    known = session.id if session and session.number else ""  # else it has no number yet
    return outcome, status, visit.lease.host, ROUTE.get(), known
