"""The pieces of a page: its frame, its shelves, its lists. Pure text in, pure text out."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skitter.demo.site.addresses import escape_path, first_turn, spell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skitter.demo.site.catalogue import Author, Book, Category

SHOP: Final = "The Lantern Bookshop"
_STYLE: Final = Path(__file__).with_name("style.css").read_text(encoding="utf-8")

_MENU: Final = (
    ("/", "Home"),
    ("/authors/", "Authors"),
    ("/archive", "Archive"),
    ("/complete-catalogue", "Complete catalogue"),
    ("/calendar/2026/11/", "Events"),
    ("/cart/", "Basket"),
)
_FOOTER: Final = (
    ("/about", "About us"),
    ("/newsletter", "Newsletter"),
    ("/private/", "Staff"),
    ("mailto:hello@lantern.example", "Write to us"),
    ("https://friends-of-the-lantern.example/", "Friends of the Lantern"),
)


def frame(title: str, main: str, *, encoding: str = "utf-8") -> str:
    """A whole document."""
    full = SHOP if title == SHOP else f"{title} - {SHOP}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="{encoding}">
<title>{escape(full)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>
{_STYLE}</style>
</head>
<body>
<header class="top"><div class="row">
<a class="brand" href="/">{SHOP}</a>
<nav aria-label="Shop">{_links(_MENU)}</nav>
</div></header>
<main>
{main}
</main>
<footer class="end"><div class="row">
<nav aria-label="Service">{_links(_FOOTER)}</nav>
<p>A shop that exists only on this machine, for the demo of Skitter.</p>
</div></footer>
</body>
</html>
"""


def _links(entries: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f'<a href="{escape(href)}">{escape(name)}</a>' for href, name in entries)


# --- books ----------------------------------------------------------------------------------------


def card(book: Book, href: str) -> str:
    """A book on a shelf."""
    return f"""<article class="book">
{cover(book)}
<h3><a href="{escape(href)}">{escape(book.title)}</a></h3>
<p>{escape(book.author.name)}</p>
<p class="foot"><span>{book.price}</span> {rating(book)}</p>
</article>"""


def lost_card(title: str, href: str) -> str:
    """A book that is no longer for sale, or moved."""
    return f"""<article class="book">
<h3><a href="{escape(href)}">{escape(title)}</a></h3>
<p>From the old shelves</p>
</article>"""


def cover(book: Book) -> str:
    return (
        f'<div class="cover" style="--hue:{book.number * 47 % 360}" aria-hidden="true">'
        f"<span>{escape(book.title)}</span><small>{escape(book.author.name)}</small></div>"
    )


def rating(book: Book) -> str:
    stars = "&#9733;" * book.rating + "&#9734;" * (5 - book.rating)
    return f'<data class="rating" value="{book.rating}">{stars}</data>'


def shelf(cards: Iterable[str]) -> str:
    return '<div class="shelf">\n' + "\n".join(cards) + "\n</div>"


def shelf_of(books: Iterable[Book], *, origin: str, page: str) -> str:
    """Books on a page, each address spelled differently."""
    turn = first_turn(page)
    return shelf(
        card(book, spell(book.path, origin=origin, page=page, turn=turn + n))
        for n, book in enumerate(books)
    )


def details(rows: Iterable[tuple[str, str]]) -> str:
    lines = (f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in rows)
    return "<table>\n" + "\n".join(lines) + "\n</table>"


# --- lists of links -------------------------------------------------------------------------------


def category_list(categories: Iterable[Category]) -> str:
    items = (f'<li><a href="{c.path}">{escape(c.name)}</a></li>' for c in categories)
    return '<nav class="side" aria-label="Categories"><ul>\n' + "\n".join(items) + "\n</ul></nav>"


def author_index(authors: Iterable[Author]) -> str:
    letters: dict[str, list[str]] = {}
    for author in sorted(authors, key=_surname):
        link = f'<li><a class="author" href="{author.path}">{escape(author.name)}</a></li>'
        letters.setdefault(_surname(author)[0], []).append(link)
    parts = (
        f"<section><h2>{letter}</h2><ul>{''.join(links)}</ul></section>"
        for letter, links in letters.items()
    )
    return '<div class="letters">\n' + "\n".join(parts) + "\n</div>"


def _surname(author: Author) -> str:
    return author.name.partition(" ")[2]


def crumbs(trail: Sequence[tuple[str, str]], here: str) -> str:
    links = (f'<a href="{escape(href)}">{escape(name)}</a> / ' for href, name in trail)
    return f'<nav class="crumbs" aria-label="Path">{"".join(links)}{escape(here)}</nav>'


def pager(path: str, page: int, pages: int) -> str:
    """Page numbers and a next link. They order the query differently, as on many sites."""
    if pages == 1:
        return ""
    items = [
        f'<li><span aria-current="page">{number}</span></li>'
        if number == page
        else f'<li><a href="{_numbered(path, number)}">{number}</a></li>'
        for number in range(1, pages + 1)
    ]
    if page < pages:
        href = f"{escape_path(path)}?page={page + 1}&amp;sort=title"
        items.append(f'<li class="next"><a href="{href}" rel="next">next</a></li>')
    return '<nav aria-label="Pages"><ul class="pager">' + "".join(items) + "</ul></nav>"


def _numbered(path: str, number: int) -> str:
    plain = escape_path(path)
    return plain if number == 1 else f"{plain}?sort=title&amp;page={number}"
