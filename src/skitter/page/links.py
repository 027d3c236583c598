"""The links of a document, as they are written in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from skitter.fetch.nesting import is_plain

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINKS: Final = "a[href],area[href]"
_LINKS_AND_FRAMES: Final = f"{_LINKS},frame[src],iframe[src],noframes"
#: Each is parsed by itself.
MOST_NOFRAMES: Final = 10


def find_hrefs(tree: LexborHTMLParser, *, skip_nofollow: bool, frames: bool) -> Iterable[str]:
    """Each once, in order: the menu of a page is often there twice, and is joined once."""
    nodes = tree.css(_LINKS_AND_FRAMES) if frames else _links(tree)
    if skip_nofollow:
        nodes = [node for node in nodes if not _is_nofollow(node)]
    return dict.fromkeys(_hrefs_and_frames(nodes) if frames else _hrefs(nodes))


def href_of(node: object) -> str | None:
    if not isinstance(node, LexborNode):
        return None
    attributes = node.attributes
    # An empty attribute is None to selectolax, and a link to the page itself to a browser.
    return attributes["href"] or "" if "href" in attributes else attributes.get("src")


def _links(tree: LexborHTMLParser) -> list[LexborNode]:
    """What `_LINKS` selects, and perhaps anchors without href. By name they are found in a fifth
    of the time, but one name after the other; few pages have both."""
    return tree.css(_LINKS) if tree.tags("area") else tree.tags("a")


def _hrefs(nodes: Iterable[LexborNode]) -> list[str]:
    every = [node.attributes for node in nodes]
    return [attributes["href"] or "" for attributes in every if "href" in attributes]


def _hrefs_and_frames(nodes: Iterable[LexborNode]) -> list[str]:
    hrefs: list[str] = []
    noframes = 0
    for node in nodes:
        attributes = node.attributes
        if "href" in attributes or "src" in attributes:
            hrefs.append(attributes["href" if "href" in attributes else "src"] or "")
        elif noframes < MOST_NOFRAMES:  # text to the parser, markup to who has no frames
            noframes += 1
            hrefs += _hrefs_in(node.text())
    return hrefs


def _hrefs_in(markup: str) -> list[str]:
    if not is_plain(markup):  # it was text when the page was tried
        return []
    return _hrefs(_links(LexborHTMLParser(markup)))


def _is_nofollow(node: LexborNode) -> bool:
    return "nofollow" in (node.attributes.get("rel") or "").lower().split()


def nofollow_hrefs(tree: LexborHTMLParser) -> list[str]:
    """Links that are marked everywhere they are on the page; those of frames cannot be."""
    nodes = tree.css(_LINKS)
    followed = {href_of(node) for node in nodes if not _is_nofollow(node)}
    marked = (href_of(node) or "" for node in nodes if _is_nofollow(node))
    return [href for href in dict.fromkeys(marked) if href not in followed]
