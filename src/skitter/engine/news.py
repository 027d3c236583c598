"""News: whether a page says something that no page of its host has said lately.

What names a page is news by itself: title, main heading, the texts of its pictures, the digest of a
file. Numbers in names are not: every month of a calendar has one. Of its text and of the numbers in
its tables, a part must be new.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from skitter.domains import host_of
from skitter.spider.default import visible_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skitter.page import Page

#: A text has news if at least this share and this number of its phrases are new.
NEW_PART, NEW_PHRASES = 0.2, 5
MAX_WORDS, MAX_SIZE, MAX_ALTS, MAX_KNOWN = 2000, 40_000, 100, 50_000
_WORD = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")


@dataclass(slots=True)
class News:
    """Remembers names and three-word phrases of recent pages: from 50,000 to 100,000 of them."""

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
