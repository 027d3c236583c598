"""Rare books: a shop next door whose name only proxies can resolve, and which bans one of them.

The bookshop acts as the proxies too: a request in absolute form is answered in the neighbour's
name. The user name of the request tells the proxies apart.
"""

from __future__ import annotations

from base64 import b64decode
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from skitter.demo.site import html
from skitter.demo.site.wire import Answer

if TYPE_CHECKING:
    from skitter.demo.site.catalogue import Catalogue
    from skitter.demo.site.wire import Head

HOST: Final = "rare-books.example"
WELCOME: Final = "dear"  # the user of the proxy that is not banned
BOOKS: Final = 40
_HTML: Final = (("Content-Type", "text/html; charset=utf-8"),)


class Rare:
    """Answers in the neighbour's name."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._books = catalogue.books[:BOOKS]

    def answer(self, head: Head) -> Answer | None:
        """None: not a request for the neighbour."""
        if not head.target.startswith(f"http://{HOST}/"):
            return None
        if _user_of(head.fields.proxy_authorization) != WELCOME:
            return Answer(status=403, fields=_HTML, body=b"<h1>You were here too often.</h1>")
        path = urlsplit(head.target).path
        number = path.strip("/")
        if path == "/":
            cards = [html.card(book, f"/{book.number}") for book in self._books]
            return _page("Rare books", f"<h1>Rare books</h1>\n{html.shelf(cards)}")
        if not number.isdecimal() or int(number) >= len(self._books):
            return Answer(status=404, fields=_HTML)
        book = self._books[int(number)]
        price = f'<p class="price">{book.price}</p>'
        return _page(book.title, f"<h1>{escape(book.title)}</h1>{price}")


def _user_of(credentials: str) -> str:
    try:
        return b64decode(credentials.removeprefix("Basic ")).decode("latin-1").partition(":")[0]
    except ValueError:
        return ""


def _page(title: str, main: str) -> Answer:
    return Answer(status=200, fields=_HTML, body=html.frame(title, main).encode())
