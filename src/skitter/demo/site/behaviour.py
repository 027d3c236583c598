"""Which pages misbehave, and how.

Every such path has a script: what it does on the first request, the second, and so on; the last
line repeats. `behave` reads it, and all other paths are `GOOD`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skitter.demo.site.addresses import escape_path, relative
from skitter.demo.site.catalogue import OLD_TITLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skitter.demo.site.catalogue import Book, Catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What the server does instead of just answering."""

    status: int = 200
    delay_s: float = 0.0
    retry_after_s: int | None = None
    location: str | None = None
    cut: bool = False  # half of the body, then the connection closes
    gzip: bool = False  # if the client accepts it
    encoding: str = "utf-8"  # of the body
    content_type: str = "text/html; charset=utf-8"  # what the header says, true or not


Script = tuple[Behaviour, ...]

GOOD: Final = Behaviour()
BUSY: Final = Behaviour(status=503, retry_after_s=1)
BROKEN: Final = Behaviour(status=500)
CUT: Final = Behaviour(cut=True)
GONE: Final = Behaviour(status=410)
MISSING: Final = Behaviour(status=404)
PACKED: Final = Behaviour(gzip=True)
# Only the document itself declares its encoding.
UNLABELLED: Final = Behaviour(encoding="windows-1252", content_type="text/html")
# The oldest lie of the web; browsers read iso-8859-1 as windows-1252 (Encoding Standard 4.2).
MISLABELLED: Final = Behaviour(
    encoding="windows-1252", content_type="text/html; charset=iso-8859-1"
)

EMPTY_PATH: Final = "/newsletter"
CHAIN: Final = ("/book-of-the-month", "/book-of-the-month/2026", "/book-of-the-month/2026/11")
LOOP: Final = "/revolving-door"
MISSING_PATHS: Final = tuple(f"/books/out-of-print-{n}" for n in range(1, 9))
GONE_PATHS: Final = ("/books/withdrawn-by-the-author", "/books/recalled-edition")

# Books by number: all below MIN_BOOKS, so that the smallest shop has everything.
BUSY_ONCE, BUSY_TWICE, BROKEN_ONCE, CUT_ONCE = (4, 24), (40,), (10, 29), (16, 35)
SLOW: Final = {n: (200 + (n * 173) % 601) / 1000 for n in range(3, 50, 5)}  # 0.2 to 0.8 s
PACKED_EVERY, PACKED_FROM = 25, 9
MOVED_EVERY, MOVED_FROM = 18, 5
MOVED_STATUSES: Final = (301, 302, 308)


def behave(scripts: Mapping[str, Script], path: str, asked_before: int) -> Behaviour:
    """What a path does after this many earlier requests."""
    script = scripts.get(path)
    return script[min(asked_before, len(script) - 1)] if script else GOOD


def write_scripts(catalogue: Catalogue) -> dict[str, Script]:
    """The script of every path that needs one."""
    books = catalogue.books
    scripts: dict[str, Script] = {path: (MISSING,) for path in MISSING_PATHS}
    scripts |= {path: (GONE,) for path in GONE_PATHS}
    scripts |= {books[n].path: (BUSY, GOOD) for n in BUSY_ONCE}
    scripts |= {books[n].path: (BUSY, BUSY, GOOD) for n in BUSY_TWICE}
    scripts |= {books[n].path: (BROKEN, GOOD) for n in BROKEN_ONCE}
    scripts |= {books[n].path: (CUT, GOOD) for n in CUT_ONCE}
    scripts |= {books[n].path: (replace(GOOD, delay_s=delay),) for n, delay in SLOW.items()}
    scripts |= {book.path: (PACKED,) for book in books[PACKED_FROM::PACKED_EVERY]}
    for title, lie in zip(OLD_TITLES, (MISLABELLED, UNLABELLED), strict=True):
        scripts[catalogue.titled(title).path] = (lie,)
    return scripts | _redirects(catalogue)


# --- redirects ------------------------------------------------------------------------------------


def moved_books(catalogue: Catalogue) -> tuple[Book, ...]:
    """The books that also have an old address."""
    return catalogue.books[MOVED_FROM::MOVED_EVERY]


def old_path(book: Book) -> str:
    return f"/item/{book.number}"


def _redirects(catalogue: Catalogue) -> dict[str, Script]:
    scripts = {}
    for turn, book in enumerate(moved_books(catalogue)):
        old, new = old_path(book), escape_path(book.path)
        location = relative(new, old) if turn % 2 else new
        scripts[old] = _redirect(MOVED_STATUSES[turn % 3], location)
    stops = [*CHAIN, escape_path(catalogue.books[0].path)]
    for status, path, following in zip(MOVED_STATUSES, CHAIN, stops[1:], strict=True):
        scripts[path] = _redirect(status, following)
    scripts[LOOP] = _redirect(302, LOOP)
    return scripts


def _redirect(status: int, location: str) -> Script:
    return (Behaviour(status=status, location=location),)
