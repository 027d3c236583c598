"""Traps: budgets of URL shapes, and whether a page says something new."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, ClassVar, Self

from skitter.domains import host_of
from skitter.engine.stages.stage import Stage
from skitter.errors import SkitterError
from skitter.frontier.sites.learned import ask_permits
from skitter.patterns import REPEATED, number_of, shape_of
from skitter.spider.default import visible_text
from skitter.spider.named_files import FILE
from skitter.spider.page import TooComplex
from skitter.spider.sitemap import SITEMAP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skitter.engine.parts import Parts
    from skitter.engine.visit import Visit
    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease
    from skitter.spider.page import Page
    from skitter.spider.run import HandlerOutput


#: A text has news if at least this share and this number of its phrases are new.
NEW_PART, NEW_PHRASES = 0.2, 5
MAX_WORDS, MAX_SIZE, MAX_ALTS, MAX_KNOWN = 2000, 40_000, 100, 50_000
_WORD = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")


@dataclass(slots=True)
class News:
    """Whether a page says something that no page of its host has said lately.

    It remembers names and three-word phrases of recent pages, from 50,000 to 100,000 of them. What
    names a page is news by itself: title, main heading, the texts of its pictures, the digest of a
    file. Numbers in names are not: every month of a calendar has one. Of its text and of the
    numbers in its tables, a part must be new.
    """

    _recent: set[int] = field(default_factory=set)
    _older: set[int] = field(default_factory=set)

    def is_news(self, page: Page, items: Sequence[dict[str, object]] = ()) -> bool:
        """Whether a page says anything new. From now on, that is known."""
        host = host_of(page.url)
        if not page.is_html:
            return self.has_new({hash((host, page.body))}, least=1)
        return (
            self.has_new({hash((host, name)) for name in names_of(page)}, least=1, part=0)
            or self.has_new({hash((host, cell)) for cell in numbers_of(page)})
            or self.has_new({hash((host, phrase)) for phrase in phrases_of(text_of(page, items))})
        )

    def has_new(
        self, hashes: set[int], *, least: int = NEW_PHRASES, part: float = NEW_PART
    ) -> bool:
        """Whether enough of them are new. From now on, all are known."""
        new = hashes - self._recent - self._older
        self._recent |= new
        if len(self._recent) > MAX_KNOWN:  # two generations: a dict finds its oldest key slowly
            self._recent, self._older = set(), self._recent
        return len(new) >= max(least, part * len(hashes))


def names_of(page: Page) -> Iterator[str]:
    """What tells a page from others, without its numbers."""
    texts = chain(_texts(page, "title,h1"), _alts(page))
    return (name for text in texts if (name := " ".join(_WORD.findall(text))))


def numbers_of(page: Page) -> Iterator[str]:
    """The cells of its tables that have numbers."""
    return (text.strip() for text in _texts(page, "td") if _DIGIT.search(text))


def _texts(page: Page, selector: str) -> Iterator[str]:
    """Of these elements, up to a total: nested ones repeat what is in them."""
    size = 0
    for node in page.tree.css(selector):
        yield (text := node.text()[:MAX_SIZE])
        size += len(text)
        if size >= MAX_SIZE:
            return


def _alts(page: Page) -> Iterator[str]:
    for node in islice(page.tree.css("img[alt]"), MAX_ALTS):
        yield node.attributes.get("alt") or ""


def phrases_of(text: str) -> Iterator[tuple[str, str, str]]:
    words = _WORD.findall(text[:MAX_SIZE].lower())[:MAX_WORDS]
    return zip(words, words[1:], words[2:], strict=False)


def text_of(page: Page, items: Sequence[dict[str, object]]) -> str:
    """The text of its items, as that is at hand; without items, what a reader sees."""
    if items:
        found = (value for item in items for value in item.values() if isinstance(value, str))
        return " ".join(text for text in found if text != page.url)
    return visible_text(page)


#: A shape needs 0.2 per page (lua/lib/shapes.lua).
WITH_ITEMS, WITH_NEWS = 10, 1
#: How much worth is reported per page, and at first: more would change nothing.
REPORTED, REPORTED_AT_FIRST = 0.4, 10.0
MAX_SHAPES = 10_000
#: How many links of a page are looked at, and how many pages are remembered as referred to.
MAX_LINKS, MAX_REFERRED = 1000, 50_000


@dataclass(slots=True)
class Traps(Stage):
    """Holds URLs whose shape has spent its budget; reports what a page was worth.

    A page is worth something if it brought items or news, and if it shows that its site has an end:
    it leads to no new page, or refers to one that other pages led to. In a maze, which is generated
    on request, all links are new or lead back. Seeds are exempt: somebody asked for them.
    """

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
        return {number_of(shape): worth for shape in paid}

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
    """Not a seed, a page visited before, a file, or a sitemap: sitemaps are bounded, look alike,
    and have no items."""
    asked = lease.request
    is_first = asked.visited is None and not asked.redo
    return asked.parent is not None and is_first and asked.handler not in (SITEMAP, FILE)
