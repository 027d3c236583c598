"""Pages not for everybody: members' editions, signed copies, rare books."""

from __future__ import annotations

import json
from base64 import b64decode
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from skitter.demo.site import html
from skitter.demo.site.http1 import Answer

if TYPE_CHECKING:
    from skitter.demo.site.catalogue import Book, Catalogue
    from skitter.demo.site.http1 import Fields, Head


USER, PASSWORD = "reader", "by-candlelight"
MEMBERS, LOGIN, SIGNED = "/members/", "/members/login", "/signed/"
EDITIONS: Final = 12
#: A form is valid for one visit: its token must come back in the form and in the cookie.
TOKEN: Final = "f3a9c1"


class Members:
    """Answers below /members/ and /signed/. The cookie is all it knows about a visitor.

    Members' editions are behind a login; signed copies have prices that only a browser shows.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._books = catalogue.books[:EDITIONS]

    def answer(self, method: str, path: str, fields: Fields, body: bytes) -> Answer | None:
        """None: not a page of ours."""
        if path.startswith(SIGNED) and method in ("GET", "HEAD"):
            return self._signed(path)
        if not path.startswith(MEMBERS):
            return None
        cookies = _cookies(fields.cookie)
        if path == LOGIN:
            return _log_in(cookies, body) if method == "POST" else _form()
        if cookies.get("member") != USER:
            return _redirect(302, LOGIN)
        return self._edition(path) if path != MEMBERS else self._corner()

    def _corner(self) -> Answer:
        cards = [html.card(book, f"{MEMBERS}{book.number}") for book in self._books]
        return _page("Members", f"<h1>Good evening, {USER}.</h1>\n{html.shelf(cards)}")

    def _edition(self, path: str) -> Answer | None:
        book = self._numbered(path.removeprefix(MEMBERS))
        return _page(book.title, _product(book, str(book.price))) if book else None

    def _signed(self, path: str) -> Answer | None:
        if path == SIGNED:
            cards = [html.card(book, f"{SIGNED}{book.number}") for book in self._books]
            return _page("Signed copies", f"<h1>Signed copies</h1>\n{html.shelf(cards)}")
        book = self._numbered(path.removeprefix(SIGNED))
        if book is None:
            return None
        script = f"document.querySelector('.price').textContent = {json.dumps(str(book.price))}"
        return _page(book.title, f"{_product(book, '')}\n<script>{script}</script>")

    def _numbered(self, number: str) -> Book | None:
        is_there = number.isdecimal() and int(number) < len(self._books)
        return self._books[int(number)] if is_there else None


def _cookies(header: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}


def _log_in(cookies: dict[str, str], body: bytes) -> Answer:
    said = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
    is_ours = said.get("token") == cookies.get("visit") == TOKEN
    if not is_ours or (said.get("user"), said.get("password")) != (USER, PASSWORD):
        return _form(status=403, says="That was not right.")
    return _redirect(303, MEMBERS, f"member={USER}; Path=/; HttpOnly; SameSite=Lax")


def _form(*, status: int = 200, says: str = "") -> Answer:
    main = f"""<h1>Members</h1><p class="lead">{says}</p>
<form method="post" action="{LOGIN}">
<input type="hidden" name="token" value="{TOKEN}">
<label>Name <input name="user"></label>
<label>Password <input name="password" type="password"></label>
<button name="go" value="in">Come in</button>
</form>"""
    return _page("Members", main, status=status, cookie=f"visit={TOKEN}; Path={MEMBERS}")


def _product(book: Book, price: str) -> str:
    return f"""<article class="product">{html.cover(book)}
<div><h1>{escape(book.title)}</h1><p>by {escape(book.author.name)}</p>
<p class="price">{price}</p></div></article>"""


def _page(title: str, main: str, *, status: int = 200, cookie: str = "") -> Answer:
    fields = [("Content-Type", "text/html; charset=utf-8")]
    fields += [("Set-Cookie", cookie)] if cookie else []
    body = html.frame(title, main).encode()
    return Answer(status=status, fields=tuple(fields), body=body)


def _redirect(status: int, location: str, cookie: str = "") -> Answer:
    fields = [("Location", location), ("Content-Type", "text/plain")]
    fields += [("Set-Cookie", cookie)] if cookie else []
    return Answer(status=status, fields=tuple(fields))


HOST: Final = "rare-books.example"
WELCOME: Final = "dear"  # the user of the proxy that is not banned
BOOKS: Final = 40
_HTML: Final = (("Content-Type", "text/html; charset=utf-8"),)


class Rare:
    """A shop next door whose name only proxies can resolve, and which bans one of them.

    The bookshop acts as the proxies too: a request in absolute form is answered in the neighbour's
    name. The user name of the request tells the proxies apart.
    """

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
            return _rare_page("Rare books", f"<h1>Rare books</h1>\n{html.shelf(cards)}")
        if not number.isdecimal() or int(number) >= len(self._books):
            return Answer(status=404, fields=_HTML)
        book = self._books[int(number)]
        price = f'<p class="price">{book.price}</p>'
        return _rare_page(book.title, f"<h1>{escape(book.title)}</h1>{price}")


def _user_of(credentials: str) -> str:
    try:
        return b64decode(credentials.removeprefix("Basic ")).decode("latin-1").partition(":")[0]
    except ValueError:
        return ""


def _rare_page(title: str, main: str) -> Answer:
    return Answer(status=200, fields=_HTML, body=html.frame(title, main).encode())
