"""The links of a document, as written in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from skitter.fetch.markup import parse_html
from skitter.fetch.nesting import is_plain

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINKS: Final = "a[href],area[href]"
_LINKS_AND_FRAMES: Final = f"{_LINKS},frame[src],iframe[src],noframes"
#: Limited because each is parsed separately.
MAX_NOFRAMES: Final = 10


def find_hrefs(tree: LexborHTMLParser, *, skip_nofollow: bool, frames: bool) -> Iterable[str]:
    """Each once, in order: pages often repeat their menu, and resolving a URL takes time."""
    nodes = tree.css(_LINKS_AND_FRAMES) if frames else _links(tree)
    if skip_nofollow:
        nodes = [node for node in nodes if not _is_nofollow(node)]
    return dict.fromkeys(_hrefs_and_frames(nodes) if frames else _hrefs(nodes))


def href_of(node: object) -> str | None:
    if not isinstance(node, LexborNode):
        return None
    attributes = node.attributes
    # selectolax returns None for an empty attribute; to a browser it is a link to the page itself.
    return attributes["href"] or "" if "href" in attributes else attributes.get("src")


def _links(tree: LexborHTMLParser) -> list[LexborNode]:
    """What `_LINKS` selects, and perhaps anchors without href. Finding tags by name takes a fifth
    of the time, but would lose the order of pages with both tags, which are few."""
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
        elif noframes < MAX_NOFRAMES:  # the parser treats its markup as text
            noframes += 1
            hrefs += _hrefs_in(node.text())
    return hrefs


def _hrefs_in(markup: str) -> list[str]:
    if not is_plain(markup):  # the check of the page saw only text here
        return []
    return _hrefs(_links(parse_html(markup)))


def _is_nofollow(node: LexborNode) -> bool:
    return "nofollow" in (node.attributes.get("rel") or "").lower().split()


def nofollow_hrefs(tree: LexborHTMLParser) -> list[str]:
    """Links that are marked wherever they occur on the page; frames cannot be marked."""
    nodes = tree.css(_LINKS)
    followed = {href_of(node) for node in nodes if not _is_nofollow(node)}
    marked = (href_of(node) or "" for node in nodes if _is_nofollow(node))
    return [href for href in dict.fromkeys(marked) if href not in followed]
