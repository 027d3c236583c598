"""What a handler sees of one answer.

page      Page: its text, elements and links
links     the links of a document
errors    what goes wrong
"""

from skitter.page.errors import (
    BadSelector,
    LibraryMissing,
    NoLink,
    NoMatch,
    NotJSON,
    PageError,
    TooComplex,
)
from skitter.page.page import Handler, Link, Page

__all__ = [
    "BadSelector",
    "Handler",
    "LibraryMissing",
    "Link",
    "NoLink",
    "NoMatch",
    "NotJSON",
    "Page",
    "PageError",
    "TooComplex",
]
