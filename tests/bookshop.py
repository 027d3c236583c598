"""What a complete and polite crawl of the demo's bookshop comes home with, and what the shop's
access log proves about it."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from skitter.demo.site import BookShop, Entry, behaviour
from skitter.demo.site.addresses import escape_path
from skitter.demo.site.pages import Pages

COLUMNS = ("title", "price", "currency", "stock", "rating", "category", "upc")
#: The areas that the shop's robots.txt closes, and the links into them on pages outside.
DISALLOWED = ("/private/", "/cart/", "/calendar/")
DISALLOWED_LINKS = ("/private/", "/cart/", "/calendar/2026/11/")


def expected_items(shop: BookShop) -> list[dict[str, Any]]:
    """One item a book, as the demo's spider yields them, in the order of the catalogue."""
    return [
        {
            "title": book.title,
            "price": book.cents / 100,
            "currency": book.currency,
            "stock": book.stock,
            "rating": book.rating,
            "category": book.category.name,
            "upc": book.upc,
        }
        for book in shop.catalogue.books
    ]


def stored_items(database: Path) -> list[dict[str, Any]]:
    """What is in the database, as the demo's spider yielded it."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        try:
            found = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM books").fetchall()
        except sqlite3.OperationalError:
            return []
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def expected_dead(shop: BookShop, url: str | None = None) -> list[str]:
    """The URLs that no patience helps. `url`: of a shop that another process opened."""
    paths = (*behaviour.MISSING_PATHS, *behaviour.GONE_PATHS, behaviour.LOOP)
    return _absolute(paths, url or shop.origin)


def expected_disallowed(shop: BookShop, url: str | None = None) -> list[str]:
    """The URLs that the spider finds and robots.txt forbids: they are never asked for."""
    return _absolute(DISALLOWED_LINKS, url or shop.origin)


def expected_done(shop: BookShop, url: str | None = None) -> list[str]:
    """The canonical URLs that end well: pages, the empty one too, and redirects."""
    machines = ("/robots.txt", "/sitemap.xml")
    pages = Pages(shop.catalogue, "").addresses()
    scripts = behaviour.write_scripts(shop.catalogue)
    redirects = [path for path, script in scripts.items() if script[-1].location]
    paths = [page for page in (*pages, *redirects) if page not in (*machines, behaviour.LOOP)]
    return _absolute(paths, url or shop.origin)


def _absolute(pages: Iterable[str], origin: str) -> list[str]:
    parts = [page.partition("?") for page in pages]
    return [f"{origin.rstrip('/')}{escape_path(path)}{mark}{query}" for path, mark, query in parts]


# --- the access log -------------------------------------------------------------------------------


def read_log(file: Path) -> list[Entry]:
    """The entries of a file, in order. A last line that is still being written is left out."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return [Entry(**json.loads(line)) for line in lines if line.endswith("\n")]


def fetched_twice(entries: Iterable[Entry]) -> list[str]:
    """Pages that were asked for again after a final answer. A polite crawl has none.

    A 5xx and a broken connection are not final: to try those again is what they are for.
    """
    final = Counter(
        entry.page
        for entry in entries
        if entry.method == "GET" and entry.complete and entry.status < 500
    )
    return [page for page, times in final.items() if times > 1]


def trespasses(entries: Iterable[Entry]) -> list[Entry]:
    """Requests for what robots.txt disallows."""
    return [entry for entry in entries if entry.page.startswith(DISALLOWED)]


def smallest_gap_s(entries: Iterable[Entry]) -> float | None:
    """The shortest time between two requests to the same host, None if there were no two."""
    moments: dict[str, list[float]] = {}
    for entry in entries:
        moments.setdefault(entry.host.lower(), []).append(entry.monotonic)
    gaps = [later - earlier for times in moments.values() for earlier, later in pairwise(times)]
    return min(gaps, default=None)
