from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from skitter.engine.departures import PATIENCE_AFTER_REDIRECT_S
from skitter.engine.outcomes import AGAIN
from skitter.engine.redirects import redirected
from skitter.engine.stages.stage import Stage
from skitter.engine.verdict import Bury, Follow, Retry
from skitter.spider.scope import FILE, Refused
from skitter.urls import identify

if TYPE_CHECKING:
    from skitter.engine.outcomes import Again, Outcome
    from skitter.engine.verdict import Verdict
    from skitter.engine.visit import Visit
    from skitter.model import Request


class Redirects(Stage):
    """Makes a redirect a link, to be fetched once and in its turn; checks where a browser went."""

    async def judged(self, visit: Visit, verdict: Verdict) -> Outcome | Again | None:
        if isinstance(verdict, Follow):
            return self._follow(visit, verdict)
        if visit.page.url == visit.request.url:
            return None
        problem = await self._ask_again(visit, visit.page.url)
        return visit.ended(problem) if problem else None

    def _follow(self, visit: Visit, verdict: Follow) -> Outcome | Again:
        assert visit.response is not None
        status, lease = visit.response.status, visit.lease
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
