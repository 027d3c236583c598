from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from skitter.engine.departures import PATIENCE_AFTER_REDIRECT_S
from skitter.engine.stages.stage import Stage
from skitter.engine.verdict import Bury, Follow, Handle, Retry, Skip, judge_response, redirected
from skitter.engine.visit import AGAIN
from skitter.spider.page import Page
from skitter.spider.scope import FILE, Refused
from skitter.urls import identify

if TYPE_CHECKING:
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Again, Outcome, Visit
    from skitter.model import Request, Response


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
            moved = visit.page.url != visit.request.url
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
