"""A response as a handler sees it.

controls   The fields of a form and their default values (HTML 4.10)
document   Document: a response as bytes, text, elements and links
form       Form: fill it in and submit it, as a browser does (HTML 4.10.21)
page       Page: a response as a handler sees it, with methods to request more
reading    Readable: what a document says, for handlers: its main part, its tables and its data
selectors  Selectors on pages that strangers wrote, and what can be wrong with a page
signals    What a page asks of robots and users of its content: meta robots, X-Robots-Tag
"""

from skitter.spider.page.controls import File
from skitter.spider.page.form import Form
from skitter.spider.page.page import Handler, Link, Page
from skitter.spider.page.selectors import (
    BadForm,
    BadSelector,
    LibraryMissing,
    NoLink,
    NoMatch,
    NotJSON,
    PageError,
    TooComplex,
)

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
