"""What the benchmark's sites are made of: pages of one size with many links. Pure."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE_BYTES: Final = 12_800
LINKS: Final = 40
CHILDREN: Final = 4  # new pages that each page of the endless site links to
_WORDS: Final = ("lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit")
_END: Final = "</body></html>\n"


def _paragraphs() -> str:
    chance = Random(5)
    paragraphs = (" ".join(chance.choices(_WORDS, k=60)) for _ in range(PAGE_BYTES // 300))
    return "".join(f"<p>{words}</p>\n" for words in paragraphs)


_FILLER: Final = _paragraphs()


def write_page(
    number: int, links: Iterable[int], *, folder: str = "p", size_bytes: int = PAGE_BYTES
) -> bytes:
    """An HTML page of that size with its own title."""
    listed = "".join([f'<li><a href="/{folder}/{n}.html">page {n}</a></li>\n' for n in links])
    page = (
        f'<!doctype html><html><head><meta charset="utf-8"><title>Page {number}</title></head>\n'
        f"<body><h1>Page {number}</h1><ul>\n{listed}</ul>\n"
    )
    room = max(0, size_bytes - len(page) - len(_END))
    filler = _FILLER * (1 + room // len(_FILLER))
    return f"{page}{filler[:room]}{_END}".encode()


def random_links(number: int, pages: int) -> list[int]:
    """Links to anywhere on the site; the first two ensure that every page is found."""
    chance = Random(number)
    anywhere = [chance.randrange(pages) for _ in range(LINKS - 2)]
    return [(number + 1) % pages, (7 * number + 1) % pages, *anywhere]


def links_found_twice(number: int) -> list[int]:
    """Ten, five of them new; every page but the first few is linked from two others."""
    first = 5 * number + 1
    return list(range(first, first + 10))


def tree_links(number: int, pages: int) -> list[int]:
    """A few to new pages, the others back to earlier ones: the queue stays small."""
    first = CHILDREN * number + 1
    new = [child for child in range(first, first + CHILDREN) if child < pages]
    back = [(number * 2_654_435_761 + n * 40_503) % (number + 1) for n in range(LINKS - len(new))]
    return new + back
