"""The page at each address of the shop: `Pages.body("/books/...")` is text, or None.

A page is named as `addresses.page_of` spells it. Nothing here knows about HTTP.
"""

from __future__ import annotations

import re
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Final

from skitter.demo.site import behaviour, html
from skitter.demo.site.addresses import escape_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skitter.demo.site.catalogue import Author, Book, Catalogue, Category

PER_PAGE: Final = 20
RELATED: Final = 4
NEW_BOOKS: Final = 12
LARGE_PAGE_BYTES: Final = 3_000_000

LARGE_PATH: Final = "/complete-catalogue"
ROBOTS: Final = """\
# Crawlers are welcome on the shelves, not behind the counter.
User-agent: *
Disallow: /private/
Disallow: /cart/
Disallow: /calendar/

Sitemap: {origin}/sitemap.xml
"""

_MONTH: Final = re.compile(r"/calendar/(\d{4})/(\d{1,2})/(\d{1,2})?")


class Pages:
    """The bookshop as text. `origin` is where it is served: http://localhost:8000"""

    def __init__(self, catalogue: Catalogue, origin: str) -> None:
        self._catalogue = catalogue
        self._origin = origin

    def body(self, page: str, *, encoding: str = "utf-8") -> str | None:
        """The text of a page, or None if it does not exist."""
        if render := self._fixed.get(page) or self._listings.get(page):
            return render()
        path = page.partition("?")[0]  # unknown parameters change nothing
        if render := self._fixed.get(path) or self._listings.get(path):
            return render() if "page=" not in page else None
        if book := self._books.get(path):
            return self._book(book, encoding=encoding)
        if author := self._authors.get(path):
            return self._author(author)
        return self._behind_the_counter(page)

    def addresses(self) -> list[str]:
        """Every page that a crawler may find, except redirects and missing pages."""
        return [*self._fixed, *self._listings, *self._books, *self._authors]

    # --- addresses --------------------------------------------------------------------------------

    @cached_property
    def _fixed(self) -> dict[str, Callable[[], str]]:
        return {
            "/": self._home,
            "/authors/": self._author_list,
            "/archive": self._archive,
            "/about": _about,
            behaviour.EMPTY_PATH: lambda: "",
            LARGE_PATH: self._large,
            "/robots.txt": lambda: ROBOTS.format(origin=self._origin),
            "/sitemap.xml": self._sitemap,
        }

    @cached_property
    def _listings(self) -> dict[str, Callable[[], str]]:
        return dict(self._find_listings())

    def _find_listings(self) -> Iterator[tuple[str, Callable[[], str]]]:
        for category, books in self._catalogue.by_category.items():
            for number in range(1, -(-len(books) // PER_PAGE) + 1):
                address = category.path
                if number > 1:
                    address += f"?page={number}&sort=title"
                yield address, lambda c=category, n=number: self._listing(c, n)  # type: ignore[misc]

    @cached_property
    def _books(self) -> dict[str, Book]:
        return {book.path: book for book in self._catalogue.books}

    @cached_property
    def _authors(self) -> dict[str, Author]:
        return {author.path: author for author in self._catalogue.authors}

    # --- shelves ----------------------------------------------------------------------------------

    def _home(self) -> str:
        newest = sorted(self._catalogue.books, key=lambda book: -book.year)[:NEW_BOOKS]
        main = f"""<h1>Good evening. Come in, it is warm.</h1>
<p class="lead">{len(self._catalogue.books):,} books in {len(self._catalogue.categories)} rooms,
chosen by people who read them first.</p>
<div class="columns">
{html.category_list(self._catalogue.categories)}
<section><h2>New on the tables</h2>
{html.shelf_of(newest, origin=self._origin, page="/")}
</section>
</div>"""
        return html.frame(html.SHOP, main)

    def _listing(self, category: Category, number: int) -> str:
        books = self._catalogue.by_category[category]
        shown = books[(number - 1) * PER_PAGE : number * PER_PAGE]
        pages = -(-len(books) // PER_PAGE)
        where = f", page {number} of {pages}" if pages > 1 else ""
        cards = (html.card(book, escape_path(book.path)) for book in shown)
        main = f"""{html.crumbs([("/", "Home")], category.name)}
<h1>{escape(category.name)}</h1>
<p class="lead">{len(books)} {_plural(len(books))}{where}</p>
<div class="columns">
{html.category_list(self._catalogue.categories)}
<section>
{html.shelf(cards)}
{html.pager(category.path, number, pages)}
</section>
</div>"""
        return html.frame(f"{category.name}{where}", main)

    def _author_list(self) -> str:
        main = f"<h1>Authors</h1>\n{html.author_index(self._catalogue.authors)}"
        return html.frame("Authors", main)

    def _author(self, author: Author) -> str:
        books = self._catalogue.by_author[author]
        shelf = html.shelf_of(books, origin=self._origin, page=author.path)
        main = f"""{html.crumbs([("/", "Home"), ("/authors/", "Authors")], author.name)}
<h1>{escape(author.name)}</h1>
<p class="lead">{len(books)} {_plural(len(books))} in our shop</p>
{shelf}{self._out_of_print(author)}"""
        return html.frame(author.name, main)

    def _out_of_print(self, author: Author) -> str:
        """Some authors list a book whose page no longer exists."""
        number = self._catalogue.authors.index(author)
        if number >= len(behaviour.MISSING_PATHS):
            return ""
        lost = html.lost_card("Collected Works, out of print", behaviour.MISSING_PATHS[number])
        return f"\n<h2>Out of print</h2>\n{html.shelf([lost])}"

    def _archive(self) -> str:
        """Old addresses, some of which still lead somewhere."""
        cards = [
            html.lost_card(book.title, behaviour.old_path(book))
            for book in behaviour.moved_books(self._catalogue)
        ]
        cards.append(html.lost_card("The book of the month", behaviour.CHAIN[0]))
        cards.append(html.lost_card("The revolving door", behaviour.LOOP))
        cards += [html.lost_card("A withdrawn book", path) for path in behaviour.GONE_PATHS]
        main = f"""<h1>The archive</h1>
<p class="lead">Links from our old web site. Most of them still work.</p>
<div class="plain">{html.shelf(cards)}</div>"""
        return html.frame("Archive", main)

    # --- books ------------------------------------------------------------------------------------

    def _book(self, book: Book, *, encoding: str) -> str:
        trail = [("/", "Home"), (book.category.path, book.category.name)]
        facts = (
            ("UPC", f'<span class="upc">{book.upc}</span>'),
            ("Category", f'<span class="category">{escape(book.category.name)}</span>'),
            ("Pages", str(book.pages)),
            ("Published", str(book.year)),
        )
        author = f'<a class="author" href="{book.author.path}">{escape(book.author.name)}</a>'
        related = html.shelf_of(self._related(book), origin=self._origin, page=book.path)
        main = f"""{html.crumbs(trail, book.title)}
<article class="product">
{html.cover(book)}
<div>
<h1>{escape(book.title)}</h1>
<p>by {author}</p>
{html.rating(book)}
<p class="price">{book.price}</p>
{_stock(book)}
<p class="description">{escape(book.description)}</p>
<p><a class="button" rel="nofollow" href="/cart/add?upc={book.upc}">Into the basket</a></p>
{html.details(facts)}
</div>
</article>
<section class="related"><h2>From the same shelf</h2>
{related}
</section>"""
        return html.frame(book.title, main, encoding=encoding)

    def _related(self, book: Book) -> list[Book]:
        """The next on the shelf, wrapping around."""
        shelf = self._catalogue.by_category[book.category]
        place = shelf.index(book)
        return [*shelf[place + 1 :], *shelf[:place]][:RELATED]

    def _large(self) -> str:
        """Three megabytes: every book, and a sample from each."""
        books = self._catalogue.books
        sample = " ".join(book.description for book in books[:50])
        share = LARGE_PAGE_BYTES // len(books)
        text = sample * (share // len(sample) + 2)
        parts = []
        for book in books:
            start = book.number * 97 % len(sample)
            href = escape_path(book.path)
            parts.append(
                f'<article class="book"><h3><a href="{href}">{escape(book.title)}</a></h3>'
                f"<p>{escape(text[start : start + share])}</p></article>"
            )
        main = "<h1>The complete catalogue</h1>\n<div class='plain'>" + "\n".join(parts) + "</div>"
        return html.frame("The complete catalogue", main)

    # --- for machines, and behind the counter -----------------------------------------------------

    def _sitemap(self) -> str:
        skipped = ("/robots.txt", "/sitemap.xml", behaviour.EMPTY_PATH)
        lines = (
            f"<url><loc>{escape(self._origin + escape_path(path) + query)}</loc></url>"
            for page in self.addresses()
            if page not in skipped
            for path, query in (_split(page),)
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
            + "\n".join(lines)
            + "\n</urlset>\n"
        )

    def _behind_the_counter(self, page: str) -> str | None:
        """What robots.txt asks crawlers to leave alone: it is endless."""
        path = page.partition("?")[0]
        if month := _MONTH.fullmatch(path):
            return _calendar(int(month[1]), int(month[2]), month[3])
        if path.startswith("/private/"):
            return _private(path)
        if path.startswith("/cart/"):
            main = "<h1>Your basket</h1><p>It is empty.</p><a href='/cart/checkout'>Pay</a>"
            return html.frame("Basket", main)
        return None


def sorry(status: int) -> str:
    """The page that people see for an error."""
    text = {
        404: "There is no such page. It may have been sold.",
        410: "This book was withdrawn, and will not come back.",
        500: "Somebody dropped a shelf. Please try again.",
        503: "The shop is full. Please wait a moment at the door.",
    }.get(status, "This page is at another address.")
    return html.frame(f"{status}", f"<h1>{status}</h1><p class='lead'>{text}</p>")


def _about() -> str:
    main = """<h1>About us</h1>
<p class="lead">The Lantern opened in 1926, burned down twice and was rebuilt three times.</p>
<p>This shop is part of Skitter. Its shelves are made from a seed: every copy of it has the same
books, the same slow pages, the same broken links and the same lost customers.</p>"""
    return html.frame("About us", main)


def _calendar(year: int, month: int, day: str | None) -> str | None:
    if not 1 <= month <= 12:
        return None
    days = "".join(
        f'<li><a href="/calendar/{year:04}/{month}/{n}">{n}</a></li>' for n in range(1, 31)
    )
    later, next_month = (year + 1, 1) if month == 12 else (year, month + 1)
    title = f"Events of {year:04}-{month:02}" + (f"-{int(day):02}" if day else "")
    main = f"""<h1>{title}</h1><p>Nothing yet.</p><ul class="days">{days}</ul>
<p><a rel="next" href="/calendar/{later % 10_000:04}/{next_month}/">Next month</a></p>"""
    return html.frame(title, main)


def _private(path: str) -> str:
    deeper = f"{path.rstrip('/')}/more/" if len(path) < 1000 else path
    main = f"""<h1>Staff only</h1><p>The cash book is in the second drawer.</p>
<p><a href="{escape(escape_path(deeper))}">The second drawer</a></p>"""
    return html.frame("Staff only", main)


def _stock(book: Book) -> str:
    if book.stock:
        return f'<p class="stock">In stock ({book.stock} available)</p>'
    return '<p class="stock none">Sold out</p>'


def _plural(number: int) -> str:
    return "book" if number == 1 else "books"


def _split(page: str) -> tuple[str, str]:
    path, mark, query = page.partition("?")
    return path, mark + query
