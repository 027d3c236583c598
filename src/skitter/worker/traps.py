"""Traps: how a worker keeps to the budgets of URL shapes, and what it says a page was worth.

A page is worth most if it brought an item, something if it says something new and leads somewhere,
nothing otherwise. The page that led to one with items is worth as much. New text alone is nothing:
programs that catch crawlers make it without end. Seeds are exempt: somebody asked for them.

A page that leads to several new ones like itself, and to none of its kind that was known, may be
part of a maze: what it is worth is unsure, and the frontier believes it for so many pages only.
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

#: As in lua/lib/shapes.lua, a shape needs 0.2 per page.
WITH_ITEMS, WITH_NEWS = 10, 1
#: What is unsure is told more often, so that a few pages that are sure are not missed among many.
UNSURE_PART = 0.1
#: A page that was known vouches for so many that link to it: a maze may link to a few fixed pages.
VOUCHES, MOST_VOUCHING, MOST_LINKS = 3, 50_000, 1000
#: So much of it is told per page, and for the first ones: more would change nothing.
TOLD, TOLD_AT_FIRST = 0.4, 10.0
MOST_SHAPES = 10_000
#: A page has news if this part of its phrases is new, and not less than so many.
NEW_PART, NEW_PHRASES = 0.2, 5
MOST_WORDS, MOST_PHRASES = 2000, 100_000
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(slots=True)
class News:
    """Remembers phrases of three words that pages had lately; numbers are not words. What is said
    on pages of another kind does not count: a site may say a thing in two places."""

    _known: dict[int, None] = field(default_factory=dict)

    def is_news(self, text: str, among: str = "") -> bool:
        """Whether it says something new among pages of a kind. From now on it is known there."""
        words = _WORD.findall(text.lower(), 0, 20 * MOST_WORDS)[:MOST_WORDS]
        threes = zip(words, words[1:], words[2:], strict=False)
        phrases = {hash((among, three)) for three in threes}
        new = [one for one in phrases if one not in self._known]
        self._known.update(dict.fromkeys(new))
        while len(self._known) > MOST_PHRASES:
            del self._known[next(iter(self._known))]
        return len(new) >= max(NEW_PHRASES, NEW_PART * len(phrases))


@dataclass(slots=True)
class Traps:
    """The permits that a worker has, by shape."""

    frontier: Frontier
    item_per_page: bool = False  # the spider's: an item alone says nothing
    is_known: Callable[[str], bool] = lambda url: False  # whether the frontier has that URL
    _ahead: dict[str, int] = field(default_factory=dict)
    _untold: defaultdict[str, float] = field(
        default_factory=lambda: defaultdict(lambda: TOLD_AT_FIRST)
    )
    _news: News = field(default_factory=News)
    _crowd: set[str] = field(default_factory=set)  # shapes that share a budget: the host has many
    _vouched: Counter[str] = field(default_factory=Counter)

    @property
    def budget(self) -> int | None:
        return self.frontier.options.limits.shape_budget

    async def without_trapped(self, leases: list[Lease]) -> list[Lease]:
        """Those that may be fetched. The others are held by the frontier."""
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
            return leases  # the server is away: these few are fetched, or lost to others
        for (lease, shape), permit in zip(asked, permits, strict=True):
            if permit.is_ours:
                self._grant(shape, permit)
            else:
                refused.add(lease.fingerprint)
        return [lease for lease in leases if lease.fingerprint not in refused]

    def _unpaid(self, lease: Lease) -> str:
        """The shape that needs a permit; empty: it needs none, or one is at hand."""
        if not _is_link(lease):
            return ""
        shape = shape_of(lease.url)
        if self._ahead.get(shape, 0) > 0:
            self._ahead[shape] -= 1
            return ""
        return shape

    def _grant(self, shape: str, permit: Permit) -> None:
        if len(self._untold) > MOST_SHAPES:
            for memory in (self._untold, self._ahead, self._crowd):
                memory.clear()
        self._untold[shape] += TOLD * (1 + permit.ahead)
        if permit.ahead:
            self._ahead[shape] = self._ahead.get(shape, 0) + permit.ahead
        if permit.is_shared:
            self._crowd.add(shape)

    def yields(self, lease: Lease, page: Page, output: HandlerOutput) -> dict[int, int]:
        """What a page was worth, by the numbers of the shapes that it counts for; below zero, if
        that is unsure."""
        if lease.request.parent is None or not _is_link(lease) or self.budget is None:
            return {}
        own, above = shape_of(lease.url), shape_of(lease.request.parent)
        if self._untold[own] <= 0 or own.endswith(REPEATED):
            return {}
        found = bool(output.items) and not self.item_per_page
        if not found and not self._has_news(own, page, output):
            return {}
        worth = WITH_ITEMS if found else WITH_NEWS
        is_sure = not self._breeds({own, above}, output) or self._is_vouched_for(lease, page)
        self._untold[own] -= worth if is_sure else UNSURE_PART * worth
        is_same_host = above.partition("/")[0] == own.partition("/")[0]
        paid = {own, above} if found and is_same_host else {own}
        return {number_of(one): worth if is_sure else -worth for one in paid}

    def _breeds(self, kin: set[str], output: HandlerOutput) -> bool:
        """Whether it leads to several new pages of its own shape, or of its parent's: without such
        pages nothing goes on for ever, unless it is one page after the other."""
        new = (link.url for link in output.requests if not self.is_known(link.url))
        return len(list(islice((url for url in new if self._is_kin(shape_of(url), kin)), 2))) > 1

    def _is_kin(self, shape: str, kin: set[str]) -> bool:
        """On a host with too many shapes, all that have no budget of their own are alike."""
        is_rare = shape in self._crowd or shape not in self._untold
        return shape in kin or (is_rare and not kin.isdisjoint(self._crowd))

    def _is_vouched_for(self, lease: Lease, page: Page) -> bool:
        """Whether it links to a page of its kind that another one led to. Pages of a site do: they
        name each other. In a maze, whose pages are made when they are asked for, all links are new,
        or lead to where one came from."""
        kin, above = {shape_of(lease.url)}, {lease.url, page.url, lease.request.parent}
        for url in islice(page.links() if page.is_html else (), MOST_LINKS):
            if url in above or not self.is_known(url) or page.url.startswith(url.rstrip("/")):
                continue
            if self._vouched[url] < VOUCHES and self._is_kin(shape_of(url), kin):
                if len(self._vouched) > MOST_VOUCHING:
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
    """Not a start URL, nor a page that was visited before, nor a sitemap: those are bounded, are
    alike, and have no items."""
    asked = lease.request
    return asked.parent is not None and asked.visited is None and asked.handler != SITEMAP


def _is_bred(lease: Lease, shape: str) -> bool:
    return shape_of(lease.request.parent or "") == shape


def leads_nowhere(own: str, output: HandlerOutput) -> bool:
    """Whether all of its links are new, and to pages of its own shape: that is how a maze looks.
    A page of an ordinary site has a link home, at least."""
    if output.known or output.refused or not output.requests:
        return False
    return all(shape_of(link.url) == own for link in output.requests)


def _text_of(page: Page, output: HandlerOutput) -> str:
    """What the handler made of it; if that is nothing, what a reader sees."""
    if output.items:
        return " ".join(_texts(output.items))
    return visible_text(page) if page.is_html else page.text


def _texts(items: Iterable[dict[str, object]]) -> Iterable[str]:
    return (value for item in items for value in item.values() if isinstance(value, str))
