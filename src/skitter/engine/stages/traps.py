"""Traps: how a worker keeps to the budgets of URL shapes, and reports what a page was worth.

A page is worth something if it brought items or news, and if it shows that its site has an end: it
leads to no new page, or refers to one that other pages led to. In a maze, which is generated on
request, all links are new or lead back. Seeds are exempt: somebody asked for them.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Self

from skitter.engine.news import News
from skitter.engine.stages.stage import Stage
from skitter.errors import SkitterError
from skitter.frontier.traps import ask_permits
from skitter.page import TooComplex
from skitter.shapes import REPEATED, number_of, shape_of
from skitter.spider.sitemap import SITEMAP

if TYPE_CHECKING:
    from collections.abc import Callable

    from skitter.engine.parts import Parts
    from skitter.engine.visit import Visit
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease
    from skitter.page import Page
    from skitter.spider.run import HandlerOutput

#: A shape needs 0.2 per page (lua/lib/shapes.lua).
WITH_ITEMS, WITH_NEWS = 10, 1
#: How much worth is reported per page, and at first: more would change nothing.
REPORTED, REPORTED_AT_FIRST = 0.4, 10.0
MAX_SHAPES = 10_000
#: How many links of a page are looked at, and how many pages are remembered as referred to.
MAX_LINKS, MAX_REFERRED = 1000, 50_000


@dataclass(slots=True)
class Traps(Stage):
    """Holds URLs whose shape has spent its budget; reports what a page was worth."""

    needs: ClassVar[str] = "a job"

    frontier: Frontier
    item_per_page: bool = False  # the spider's: items prove nothing then
    is_known: Callable[[str], bool] = lambda url: False  # whether the frontier has it
    _ahead: dict[str, int] = field(default_factory=dict)
    _reportable: defaultdict[str, float] = field(
        default_factory=lambda: defaultdict(lambda: REPORTED_AT_FIRST)
    )
    _news: News = field(default_factory=News)
    _referred: set[str] = field(default_factory=set)

    @property
    def budget(self) -> int | None:
        return self.frontier.options.limits.shape_budget

    @classmethod
    def bind(cls, parts: Parts) -> Self | None:
        if parts.frontier is None:
            return None
        return cls(parts.frontier, parts.spider.item_per_page, parts.memory.has_any)

    async def admit(self, leases: list[Lease]) -> list[Lease]:
        """The leases that may be fetched. The frontier holds the others."""
        if self.budget is None:
            return leases
        asked = [(lease, shape) for lease in leases if (shape := self._unpaid(lease))]
        if not asked:
            return leases
        refused = set[str]()
        try:
            permits = await ask_permits(
                self.frontier, [(lease, number_of(shape)) for lease, shape in asked]
            )
        except SkitterError as error:
            if not error.retryable:
                raise
            return leases  # the server is away: fetch these few, or lose them to others
        for (lease, shape), permit in zip(asked, permits, strict=True):
            if permit.is_ours:
                self._grant(shape, permit.ahead)
            else:
                refused.add(lease.fingerprint)
        return [lease for lease in leases if lease.fingerprint not in refused]

    def _unpaid(self, lease: Lease) -> str:
        """The shape to get a permit for; empty: it needs none, or we have one."""
        if not _is_link(lease):
            return ""
        shape = shape_of(lease.url)
        if self._ahead.get(shape, 0) > 0:
            self._ahead[shape] -= 1
            return ""
        return shape

    def _grant(self, shape: str, ahead: int) -> None:
        if len(self._reportable) > MAX_SHAPES:
            self._reportable.clear()
            self._ahead.clear()
        self._reportable[shape] += REPORTED * (1 + ahead)
        if ahead:
            self._ahead[shape] = self._ahead.get(shape, 0) + ahead

    async def handled(self, visit: Visit, output: HandlerOutput) -> None:
        with suppress(TooComplex):  # its handler did not need to parse it
            visit.feedback.yields = self._worth(visit.lease, visit.page, output)

    def _worth(self, lease: Lease, page: Page, output: HandlerOutput) -> dict[int, int]:
        """What a page was worth, by the numbers of the shapes it counts for."""
        if lease.request.parent is None or not _is_link(lease) or self.budget is None:
            return {}
        own = shape_of(lease.url)
        if self._reportable[own] <= 0 or own.endswith(REPEATED):
            return {}
        found = bool(output.items) and not self.item_per_page
        # With items it may lead to one more page: lists do, and are wanted.
        if len(output.requests) > found and not self._refers(lease, page):
            return {}
        if not found and not self._news.is_news(page, output.items):
            return {}
        worth, above = WITH_ITEMS if found else WITH_NEWS, shape_of(lease.request.parent)
        self._reportable[own] -= worth
        is_same_host = above.partition("/")[0] == own.partition("/")[0]
        paid = {own, above} if found and is_same_host else {own}
        return {number_of(one): worth for one in paid}

    def _refers(self, lease: Lease, page: Page) -> bool:
        """Whether it links to a known page, other than those it was found on or below. Each known
        page counts once: every page of a maze may link to a few fixed ones."""
        above = {lease.url, page.url, lease.request.parent}
        for url in islice(page.links_at_hand if page.is_html else (), MAX_LINKS):
            if url in self._referred or url in above or not self.is_known(url):
                continue
            if not page.url.startswith(url.rstrip("/")):
                if len(self._referred) > MAX_REFERRED:
                    self._referred.clear()
                self._referred.add(url)
                return True
        return False


def _is_link(lease: Lease) -> bool:
    """Not a seed, a page visited before, or a sitemap: sitemaps are bounded, look alike, and have
    no items."""
    asked = lease.request
    return asked.parent is not None and asked.visited is None and asked.handler != SITEMAP
