"""A zoo of sites: what a crawl meets, small enough for a test. Each is a function of a request.

FINITE sites are crawled to their last page, ENDLESS ones are left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import count
from zlib import crc32

from skitter.demo.site.pages import _calendar, _private
from web import Answer, Asked

Site = Callable[[Asked], Answer]

#: Enough to tell one page from another, as in a real language.
WORDS = ["".join(random.Random(n).choices("abcdefghijklmnop", k=7)) for n in range(5000)]


def prose(seed: object, words: int = 80) -> str:
    return " ".join(random.Random(str(seed)).choices(WORDS, k=words))


def html(*links: str, text: str = "", title: str = "", more: str = "") -> Answer:
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    return Answer(f"<html><title>{title}</title><body>{anchors}<p>{text}</p>{more}</body></html>")


def number_in(asked: Asked) -> int:
    return int(asked.path.rpartition("/")[2] or 0)


def those(base: str, numbers: Iterable[int], pages: int) -> list[str]:
    """Page 0 is the home page."""
    return [f"{base}/{number}" if number else "/" for number in numbers if 0 <= number < pages]


# --- with an end ----------------------------------------------------------------------------------


def comic(pages: int) -> Site:
    """A title, a picture, the previous and the next one; the first has links to others."""

    def site(asked: Asked) -> Answer:
        number = number_in(asked)
        years = range(0, pages, 10) if number == 0 else ()
        there = those("/comic", (number - 1, number + 1, *years), pages)
        return html(*there, title=f"Comic {number}", more=f'<img src="/{number}.png">')

    return site


def gallery(pages: int) -> Site:
    """Pictures are told apart by their alternative texts; each links to its file."""

    def site(asked: Asked) -> Answer:
        number = number_in(asked)
        there = those(
            "/photo", (number - 1, number + 1, *range(20 * number, 20 * number + 20)), pages
        )
        alt = f"{prose(number, 3)} {number}"
        return html(*there, f"/big/{number}.jpg", more=f'<img src="/s/{number}.jpg" alt="{alt}">')

    return site


def numbered(pages: int) -> Site:
    """Nothing but a number, and a way to two more."""

    def site(asked: Asked) -> Answer:
        number = number_in(asked)
        there = those("/page", (2 * number + 1, 2 * number + 2), pages)
        return html(*there, title=f"Page {number}", text=f"Page {number}")

    return site


def tables(pages: int) -> Site:
    """Measurements, without a word that is new."""

    def site(asked: Asked) -> Answer:
        number = number_in(asked)
        chance = random.Random(number)
        rows = "".join(f"<tr><td>{chance.random():.6f}</td></tr>" for _ in range(20))
        near = (*range(number - 2, number + 2), *range(4 * number, 4 * number + 5))
        return html(*those("/day", near, pages), title="Weather", more=f"<table>{rows}</table>")

    return site


def forum(pages: int) -> Site:
    """Topics of short posts, many of them the same."""

    def site(asked: Asked) -> Answer:
        number = number_in(asked)
        post = random.Random(number).choice(("Thanks!", "+1", "Same here", "Solved?", "bump"))
        topics = range(number * 10, number * 10 + 11)
        return html("/", *those("/topic", topics, pages), title="Forum", text=post)

    return site


def wiki(pages: int) -> Site:
    """Articles that name each other: most links of the first pages are new, as in a maze."""

    def site(asked: Asked) -> Answer:
        number = number_in(asked)
        chance = random.Random(number)
        others = [chance.randrange(pages) for _ in range(12)]
        return html("/", *those("/wiki", (*others, number + 1), pages), text=prose(number))

    return site


def deep_tree(pages: int) -> Site:
    """Pages link to their children alone, and to the page above."""

    def site(asked: Asked) -> Answer:
        names = [part for part in asked.path.split("/") if part]
        number = int(names[-1][1:]) if names else 0
        base = asked.path.rstrip("/")
        below = (
            f"{base}/n{child}" for child in (3 * number + k for k in (1, 2, 3)) if child < pages
        )
        above = "/".join(["", *names[:-1]]) or "/"
        return html(above, *below, text=prose(asked.path))

    return site


def shop(pages: int) -> Site:
    """A manual in PDF for each product, which all look alike."""

    def site(asked: Asked) -> Answer:
        if asked.path.endswith(".pdf"):
            pdf = (("content-type", "application/pdf"),)
            return Answer(b"%PDF-1.4 " + asked.path.encode(), headers=pdf)
        return html(*(f"/manual/{number}.pdf" for number in range(pages - 1)), title="Manuals")

    return site


# --- without an end -------------------------------------------------------------------------------


def bounded(site: Site, most: int = 2000) -> Site:
    """Who gets so far has not been held, and is not to walk for ever."""
    asked = count()
    return lambda request: site(request) if next(asked) < most else html()


def calendar(asked: Asked) -> Answer:
    """Months, their days, and the next month: each has a title and a table of its own."""
    parts = asked.path.strip("/").split("/")
    if parts[0] == "calendar":
        return Answer(_calendar(int(parts[1]), int(parts[2]), (parts[3:] or [""])[0] or None) or "")
    return html("/calendar/2026/11/", text="home")


def months(asked: Asked) -> Answer:
    """Of ten people: one month after the other, and the one a year before."""
    if asked.path == "/":
        return html(*(f"/month/{1000 * who}" for who in range(10)), title="Calendars")
    month = number_in(asked)
    name = ("January", "May", "July", "October")[month % 4]
    cells = "".join(f"<td>{day}</td>" for day in range(1, 29 + month % 4))
    there = (f"/month/{month + 1}", f"/month/{max(0, month - 12)}")
    return html(*there, title=f"{name} {month // 12}", more=f"<table><tr>{cells}</table>")


def maze(asked: Asked, *more: str) -> Answer:
    """Every page links home and to new pages, and has new text."""
    if asked.path == "/":
        return html("/maze/a/start", "/about", text=prose("home"))
    if asked.path == "/about":
        return html("/", text=prose("about"))
    rooms = (f"/maze/a/{room}" for room in unique(asked.path))
    return html("/", "/about", *more, *rooms, text=prose(asked.path), title=prose(asked.path, 3))


def maze_with_fixed_pages(asked: Asked) -> Answer:
    return maze(asked, "/maze/a/start", "/maze/a/hall")


def maze_of_two_shapes(asked: Asked) -> Answer:
    rooms = "hall" if asked.path.startswith("/room") else "room"
    return html("/", *(f"/{rooms}/{room}" for room in unique(asked.path)), text=prose(asked.path))


def maze_below_itself(asked: Asked) -> Answer:
    """With links to the page above, and to the one above that."""
    names = [part for part in asked.path.split("/") if part]
    above = ["/" + "/".join(names[:end]) for end in range(len(names))][-2:]
    below = (f"{asked.path.rstrip('/')}/{room}" for room in unique(asked.path))
    return html(*above, *below, text=prose(asked.path))


def unique(path: str) -> list[str]:
    return [f"{random.Random(path + str(n)).choice(WORDS)}-{crc32(path.encode())}" for n in "abc"]


LETTERS = str.maketrans("0123456789", "abcdefghij", "-")  # a number in a path is not a name


def maze_of_words(asked: Asked) -> Answer:
    """Each page has a shape of its own, until its host has too many of them."""
    words = (room.translate(LETTERS) for room in unique(asked.path))
    return html("/", *(f"/{word}" for word in words), text=prose(asked.path))


def sessions() -> Site:
    """Ten pages, to which each visit gives new addresses."""
    ids = count(10**9)

    def site(asked: Asked) -> Answer:
        others = [f"/item/{number}?visit={next(ids):x}" for number in range(10)]
        return html(*others, title=f"Item {asked.path}", text=prose(asked.path))

    return site


def ever_deeper(asked: Asked) -> Answer:
    """A relative link that was meant to be absolute."""
    return Answer(_private(asked.path if asked.path != "/" else "/private/"))
