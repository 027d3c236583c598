"""A response as a handler sees it.

page      Page: its text, elements and links
links     the links of a document
form      Form: fill it in and submit it
controls  the fields of a form and their values
errors    what can go wrong
"""

from skitter.page.controls import File
from skitter.page.errors import (
    BadForm,
    BadSelector,
    LibraryMissing,
    NoLink,
    NoMatch,
    NotJSON,
    PageError,
    TooComplex,
)
from skitter.page.form import Form
from skitter.page.page import Handler, Link, Page

__all__ = [
    "BadForm",
    "BadSelector",
    "File",
    "Form",
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
