"""Document: a response as bytes, text, elements and links.

Everything is lazy: the body is decoded on first access to `text`, parsed on first access to `tree`.
Documents are untrusted: whatever they contain, only the errors of selectors.py are raised.
"""

from __future__ import annotations

import asyncio
import json
import re
from codecs import BOM_UTF8
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from skitter.errors import shorten
from skitter.fetch.html import markup as trial
from skitter.fetch.html.encoding import decode
from skitter.fetch.html.markup import is_cheap, is_small, is_tidy, parse_html
from skitter.spider.page import signals
from skitter.spider.page.selectors import (
    BadSelector,
    LibraryMissing,
    NoMatch,
    NotJSON,
    Selector,
    TooComplex,
    counts_too_much,
)
from skitter.urls import join, join_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.model import Response


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
    if not is_cheap(markup):  # the check of the page saw only text here
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


T = TypeVar("T")

_REQUIRED: Final[Any] = object()
_BASE: Final = re.compile(r"<base[\s/>]", re.IGNORECASE)
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})


_MAYBE_COSTLY: Final = re.compile(r"[\s~][^\s~]+[\s~]|:has\(|:nth-")
_selector = lru_cache(maxsize=1000)(Selector)


class Document:
    """A response as a document."""

    __slots__ = (
        "_base",
        "_decoded",
        "_is_parsable",
        "_metas",
        "_tree",
        "response",
        "robot",
        "robots_usage",
        "selectors",
        "url",
    )

    def __init__(self, response: Response) -> None:
        self.response = response
        self.url = response.url
        self._decoded: tuple[str, str] | None = None
        self._is_parsable: bool | None = None  # unknown
        self._tree: LexborHTMLParser | None = None
        self._base: str | None = None
        self._metas: tuple[tuple[str, str], ...] | None = None
        self.robot = "skitter"  # our name in robots directives
        self.robots_usage = ""  # what robots.txt says about using it
        self.selectors: dict[str, bool] = {}  # of `css`: whether each matched

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.response.status

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Names are lower case, in the order received; a name may occur twice."""
        return self.response.headers

    def header(self, name: str, default: str | None = None) -> str | None:
        """The first header of that name, case-insensitive."""
        return self.response.header(name, default)

    @property
    def content_type(self) -> str:
        """Only the media type, in lower case: `text/html`. Empty if the server sent none."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        """Whether a browser would show it as HTML; without a content type, whether it begins with a
        tag."""
        kind = self.content_type
        return kind in _HTML_TYPES if kind else self.text[:1000].lstrip().startswith("<")

    @property
    def body(self) -> bytes:
        """The body, decompressed."""
        return self.response.body

    @property
    def screenshot(self) -> bytes | None:
        """A PNG of the whole page, if it was rendered with `Render(screenshot=True)`."""
        return self.response.screenshot

    @property
    def text(self) -> str:
        """The body, decoded as browsers decode it."""
        return self._decode()[0]

    @property
    def encoding(self) -> str:
        """The name of the body's encoding, found as browsers do."""
        return self._decode()[1]

    def _decode(self) -> tuple[str, str]:
        if self._decoded is None:
            self._decoded = decode(self.response.body, self.response.headers)
        return self._decoded

    def json(self) -> Any:
        """The body as JSON. Raises NotJSON."""
        try:
            return msgspec.json.decode(self.text)
        except (ValueError, RecursionError):
            pass
        try:
            # Slower and more lenient: accepts NaN, lone surrogates, line breaks inside strings.
            return json.loads(self.text, strict=False)
        except (ValueError, RecursionError) as error:
            raise NotJSON(self, f"the body is not JSON: {error}") from None

    # --- elements ---------------------------------------------------------------------------------

    @property
    def tree(self) -> LexborHTMLParser:
        """The parsed document. It is shared: do not change it.

        Raises TooComplex.
        """
        if self._tree is None:
            self._refuse_complex()
            self._tree = parse_html(self._utf8())
        return self._tree

    def _utf8(self) -> str | bytes:
        """The input of the parser, which reads UTF-8. A body in valid UTF-8 is passed as it is:
        encoding its text again would add a tenth to the parser's time."""
        text, encoding = self._decode()
        if encoding != "utf-8" or "\ufffd" in text or self.body.startswith(BOM_UTF8):
            return text
        return self.body

    async def prepare(self) -> None:
        """Find out whether it can be parsed without blocking other pages, as `tree` would."""
        if self._is_parsable is not None:
            return
        if is_small(self.body):
            self._is_parsable = True  # the text is no longer than the body, with no more tags
        elif self.is_html:
            loop = asyncio.get_running_loop()
            self._is_parsable = is_tidy(self.text) or await loop.run_in_executor(
                trial.thread(), trial.can_be_parsed, self.text
            )

    def _can_be_parsed(self) -> bool:
        if self._is_parsable is None:
            self._is_parsable = is_cheap(self.text) or trial.can_be_parsed(self.text)
        return self._is_parsable

    def _refuse_complex(self) -> None:
        if not self._can_be_parsed():
            raise TooComplex(self, "its HTML takes the parser too much time or memory")

    def css(self, selector: str) -> list[LexborNode]:
        """All elements that match, in document order. Raises TooComplex."""
        tree = self.tree
        try:
            costly = self._costly(selector)
            found = tree.css(selector) if costly is None else costly.find(tree)
        except (SelectolaxError, ValueError, TypeError) as error:
            raise BadSelector(selector, str(error)) from None
        self.selectors[selector] = bool(found) or self.selectors.get(selector, False)
        return found

    def _costly(self, selector: str) -> Selector | None:
        """The selector, taken apart, if it might take the parser too long on this page."""
        if not isinstance(selector, str) or not _MAYBE_COSTLY.search(selector):
            return None
        tags = self.text.count("<")
        if counts_too_much(selector, self.tree, tags):
            raise TooComplex(
                self,
                f"the selector {shorten(selector)!r} takes too much time in a list that is so "
                "long: select its elements, and count them yourself",
            )
        parts = _selector(selector)
        if not parts.is_costly(self.tree, tags):
            return None
        if parts.inner >= 2:
            raise TooComplex(
                self,
                f"the selector {shorten(selector)!r} takes too much time on HTML that is nested so "
                "deeply: use fewer steps in parentheses",
            )
        return parts

    @overload
    def css_first(self, selector: str) -> LexborNode: ...
    @overload
    def css_first(self, selector: str, default: T) -> LexborNode | T: ...
    def css_first(self, selector: str, default: Any = _REQUIRED) -> Any:
        """The first element that matches, or the default. Raises NoMatch if there is neither."""
        try:
            costly = self._costly(selector)
            tree = self.tree
            found = (
                tree.css_first(selector) if costly is None else next(iter(costly.find(tree)), None)
            )
        except (SelectolaxError, ValueError, TypeError) as error:
            raise BadSelector(selector, str(error)) from None
        if found is not None:
            return found
        if default is _REQUIRED:
            raise NoMatch(self, selector)
        return default

    def xpath(self, expression: str) -> Any:
        """What lxml finds: elements, strings or a number. Parses the page again.

        Raises TooComplex.
        """
        try:
            lxml = import_module("lxml.html")
        except ImportError:
            raise LibraryMissing("page.xpath needs lxml: pip install lxml") from None
        etree = import_module("lxml.etree")
        try:
            query = etree.XPath(expression)
        except (etree.XPathError, ValueError, TypeError) as error:
            raise BadSelector(expression, str(error)) from None
        self._refuse_complex()
        markup = self.text.encode(errors="replace")
        try:
            root = lxml.document_fromstring(markup, parser=lxml.HTMLParser(encoding="utf-8"))
        except etree.LxmlError:  # an empty document
            root = lxml.document_fromstring("<html></html>")
        try:
            return query(root)
        except etree.XPathError as error:
            raise BadSelector(expression, str(error)) from None

    @property
    def base(self) -> str:
        """The base URL of links: the page's URL, or its `<base href>`."""
        if self._base is None:
            self._base = self._find_base()
        return self._base

    def _find_base(self) -> str:
        tree = self._tree  # None if links are made without parsing
        if not (tree.tags("base") if tree else _BASE.search(self.text)):
            return self.url  # most pages have none
        element = self.tree.css_first("base[href]")
        href = element.attributes.get("href") if element else None
        return (join(self.url, href) if href else None) or self.url

    # --- what it asks of robots -------------------------------------------------------------------

    @property
    def directives(self) -> frozenset[str]:
        """Directives of X-Robots-Tag and `<meta name=robots>` for all robots or for us."""
        return signals.directives(self.headers, self._find_metas(), robot=self.robot)

    @property
    def usage(self) -> dict[str, bool]:
        """Uses that the page, its headers or robots.txt allow (True) or reserve (False), such as
        `train-ai`, `search` or `tdm`. Uses not mentioned are absent."""
        metas = self._find_metas()
        return signals.usage(self.headers, metas, self.directives, by_robots=self.robots_usage)

    @property
    def canonical(self) -> str | None:
        """The URL that the page declares as canonical, perhaps its own."""
        if not self._is_readable():
            return None
        element = self.tree.css_first('link[rel~="canonical"][href]')
        href = element.attributes.get("href") if element else None
        return join(self.base, href) if href else None

    def nofollow_links(self) -> set[str]:
        """Links that are marked rel=nofollow everywhere on the page."""
        return set(join_all(self.base, nofollow_hrefs(self.tree))) if self._is_readable() else set()

    def _find_metas(self) -> tuple[tuple[str, str], ...]:
        if self._metas is None:
            elements = self.tree.css("meta[name][content]") if self._is_readable() else []
            pairs = (
                (element.attributes["name"], element.attributes["content"]) for element in elements
            )
            self._metas = tuple((str(name).lower(), str(content)) for name, content in pairs)
        return self._metas

    def _is_readable(self) -> bool:
        return self.is_html and self._can_be_parsed()
