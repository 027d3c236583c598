"""Traps: how a worker keeps to the budgets of URL shapes, and reports what a page was worth.

A page is worth most if it brought an item, a little if it has new text and leads somewhere, and
nothing otherwise. The page that led to one with items is worth as much. New text alone is worth
nothing: crawler traps generate it without end. Seeds are exempt: somebody asked for them.

A page that leads to several new pages like itself, and to no known page of its kind, may be part of
a maze: its worth is unsure, and the frontier accepts that for a limited number of pages.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from skitter.errors import SkitterError
from skitter.frontier.traps import Permit, ask_permits
from skitter.shapes import REPEATED, number_of, shape_of
from skitter.spider.default import visible_text
from skitter.spider.sitemap import SITEMAP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease
    from skitter.page import Page
    from skitter.spider.run import HandlerOutput

#: A shape needs 0.2 per page (lua/lib/shapes.lua).
WITH_ITEMS, WITH_NEWS = 10, 1
#: Unsure worth is reported more often, so that a few sure pages are not missed among many.
UNSURE_PART = 0.1
#: A known page vouches for this many that link to it: a maze may link to a few fixed pages.
VOUCHES, MAX_VOUCHING, MAX_LINKS = 3, 50_000, 1000
#: How much worth is reported per page, and at first: more would change nothing.
REPORTED, REPORTED_AT_FIRST = 0.4, 10.0
MAX_SHAPES = 10_000
#: A page has news if at least this share and this number of its phrases are new.
NEW_PART, NEW_PHRASES = 0.2, 5
MAX_WORDS, MAX_PHRASES = 2000, 100_000
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(slots=True)
class News:
    """Remembers the three-word phrases of recent pages; numbers are not words. Pages of another
    kind do not count: a site may say a thing in two places."""

    _known: dict[int, None] = field(default_factory=dict)

    def is_news(self, text: str, among: str = "") -> bool:
        """Whether the text is new among pages of a kind. From now on it is known there."""
        words = _WORD.findall(text.lower(), 0, 20 * MAX_WORDS)[:MAX_WORDS]
        threes = zip(words, words[1:], words[2:], strict=False)
        phrases = {hash((among, three)) for three in threes}
        new = [one for one in phrases if one not in self._known]
        self._known.update(dict.fromkeys(new))
        while len(self._known) > MAX_PHRASES:
            del self._known[next(iter(self._known))]
        return len(new) >= max(NEW_PHRASES, NEW_PART * len(phrases))


@dataclass(slots=True)
class Traps:
    """The permits of a worker, by shape."""

    frontier: Frontier
    item_per_page: bool = False  # the spider's: items prove nothing then
    is_known: Callable[[str], bool] = lambda url: False  # whether the frontier has it
    _ahead: dict[str, int] = field(default_factory=dict)
    _reportable: defaultdict[str, float] = field(
        default_factory=lambda: defaultdict(lambda: REPORTED_AT_FIRST)
    )
    _news: News = field(default_factory=News)
    _crowd: set[str] = field(default_factory=set)  # shapes that share a budget, on hosts with many
    _vouched: Counter[str] = field(default_factory=Counter)

    @property
    def budget(self) -> int | None:
        return self.frontier.options.limits.shape_budget

    async def without_trapped(self, leases: list[Lease]) -> list[Lease]:
        """The leases that may be fetched. The frontier holds the others."""
        if self.budget is None:
            return leases
        asked = [(lease, shape) for lease in leases if (shape := self._unpaid(lease))]
        if not asked:
            return leases
        numbered = [(lease, number_of(shape), _is_bred(lease, shape)) for lease, shape in asked]
        refused = set[str]()
        try:
            permits = await ask_permits(self.frontier, numbered)
        except SkitterError as error:
            if not error.retryable:
                raise
            return leases  # the server is away: fetch these few, or lose them to others
        for (lease, shape), permit in zip(asked, permits, strict=True):
            if permit.is_ours:
                self._grant(shape, permit)
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

    def _grant(self, shape: str, permit: Permit) -> None:
        if len(self._reportable) > MAX_SHAPES:
            for memory in (self._reportable, self._ahead, self._crowd):
                memory.clear()
        self._reportable[shape] += REPORTED * (1 + permit.ahead)
        if permit.ahead:
            self._ahead[shape] = self._ahead.get(shape, 0) + permit.ahead
        if permit.is_shared:
            self._crowd.add(shape)

    def yields(self, lease: Lease, page: Page, output: HandlerOutput) -> dict[int, int]:
        """What a page was worth, by the numbers of the shapes it counts for; negative if unsure."""
        if lease.request.parent is None or not _is_link(lease) or self.budget is None:
            return {}
        own = shape_of(lease.url)
        if self._reportable[own] <= 0 or own.endswith(REPEATED):
            return {}
        found = bool(output.items) and not self.item_per_page
        if not found and not self._has_news(own, page, output):
            return {}
        worth, above = WITH_ITEMS if found else WITH_NEWS, shape_of(lease.request.parent)
        is_sure = not self._breeds({own, above}, output) or self._is_vouched_for(lease, page)
        self._reportable[own] -= worth if is_sure else UNSURE_PART * worth
        is_same_host = above.partition("/")[0] == own.partition("/")[0]
        paid = {own, above} if found and is_same_host else {own}
        return {number_of(one): worth if is_sure else -worth for one in paid}

    def _breeds(self, kin: set[str], output: HandlerOutput) -> bool:
        """Whether it leads to several new pages of its own shape or its parent's: without such
        pages nothing goes on forever, except one page after another."""
        new = (link.url for link in output.requests if not self.is_known(link.url))
        return len(list(islice((url for url in new if self._is_kin(shape_of(url), kin)), 2))) > 1

    def _is_kin(self, shape: str, kin: set[str]) -> bool:
        """On a host with too many shapes, all without a budget of their own count as alike."""
        is_rare = shape in self._crowd or shape not in self._reportable
        return shape in kin or (is_rare and not kin.isdisjoint(self._crowd))

    def _is_vouched_for(self, lease: Lease, page: Page) -> bool:
        """Whether it links to a page of its kind that another page led to, as pages of a real site
        do. In a maze, whose pages are generated on request, all links are new or lead back."""
        kin, above = {shape_of(lease.url)}, {lease.url, page.url, lease.request.parent}
        for url in islice(page.links() if page.is_html else (), MAX_LINKS):
            if url in above or not self.is_known(url) or page.url.startswith(url.rstrip("/")):
                continue
            if self._vouched[url] < VOUCHES and self._is_kin(shape_of(url), kin):
                if len(self._vouched) > MAX_VOUCHING:
                    self._vouched.clear()
                self._vouched[url] += 1
                return True
        return False

    def _has_news(self, own: str, page: Page, output: HandlerOutput) -> bool:
        if leads_nowhere(own, output):
            return False
        host = own.partition("/")[0]
        return self._news.is_news(_text_of(page, output), host if own in self._crowd else own)


def _is_link(lease: Lease) -> bool:
    """Not a seed, a page visited before, or a sitemap: sitemaps are bounded, look alike, and have
    no items."""
    asked = lease.request
    return asked.parent is not None and asked.visited is None and asked.handler != SITEMAP


def _is_bred(lease: Lease, shape: str) -> bool:
    return shape_of(lease.request.parent or "") == shape


def leads_nowhere(own: str, output: HandlerOutput) -> bool:
    """Whether all its links are new and to pages of its own shape, as in a maze. A page of an
    ordinary site has at least a link home."""
    if output.known or output.refused or not output.requests:
        return False
    return all(shape_of(link.url) == own for link in output.requests)


def _text_of(page: Page, output: HandlerOutput) -> str:
    """The text of its items; without items, what a reader sees."""
    if output.items:
        return " ".join(_texts(output.items))
    return visible_text(page) if page.is_html else page.text


def _texts(items: Iterable[dict[str, object]]) -> Iterable[str]:
    return (value for item in items for value in item.values() if isinstance(value, str))
