"""Errors on a page.

PageError (SkitterError)
├── NoMatch          css_first found nothing, and no default was given
├── NoLink           a node without href, or a value that cannot be a link
├── BadForm          a form without that field, option or button
├── TooComplex       HTML that takes the parser too much time or memory
└── NotJSON          the body is not JSON
BadSelector (UsageError)
LibraryMissing (UsageError)
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from skitter.errors import SkitterError, UsageError, shorten

#: What to use instead of Scrapy's pseudo-elements.
_INSTEAD: Final = {
    "text": "leave ::text out, and take .text() of the element: page.css_first('h1').text()",
    "attr": "leave ::attr(name) out, and take .attributes['name'] of the element",
}


class Answer(Protocol):
    """What an error shows of the page."""

    url: str

    @property
    def status(self) -> int: ...


class PageError(SkitterError):
    """The page is not what the handler expected."""

    def __init__(self, page: Answer, reason: str) -> None:
        super().__init__(f"{reason} ({shorten(page.url)}, status {page.status})")
        self.url, self.status, self.reason = page.url, page.status, reason


class NoMatch(PageError):
    """css_first found nothing, and no default was given."""

    def __init__(self, page: Answer, selector: str) -> None:
        super().__init__(
            page,
            f"nothing on the page matches {shorten(selector)!r}: correct the selector, "
            "or pass default=None where the element may be absent",
        )
        self.selector = selector


class NoLink(PageError):
    """An element without href, or a value that cannot be a link."""


class BadForm(PageError):
    """The form lacks the requested field, option or button."""


class TooComplex(PageError):
    """HTML that takes the parser too much time or memory: see skitter.fetch.nesting."""


class NotJSON(PageError):
    """The body is not JSON."""


class BadSelector(UsageError):
    """A selector that does not parse."""

    def __init__(self, selector: object, reason: str) -> None:
        pseudo = re.search(r"::(text|attr)", selector) if isinstance(selector, str) else None
        reason = _INSTEAD[pseudo[1]] if pseudo else reason
        super().__init__(f"{shorten(repr(selector))} is not a selector we can use: {reason}")
        self.selector = selector


class LibraryMissing(UsageError):
    """An optional library is not installed."""
