"""Page: what a handler sees of one answer.

Nothing is done before it is asked for: the body is decoded at the first look at `text`, parsed at
the first look at `tree`. A page comes from a stranger, so nothing in it raises anything but the
errors of errors.py; a link that leads nowhere becomes a request that the scope refuses and counts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final, Self, TypeVar, overload

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from skitter.errors import UsageError, shorten
from skitter.fetch import trial
from skitter.fetch.encoding import decode
from skitter.fetch.nesting import is_plain, is_small
from skitter.fetch.query import encode_query
from skitter.model import Request, Response, Visited
from skitter.page import signals
from skitter.page.errors import BadSelector, LibraryMissing, NoLink, NoMatch, NotJSON, TooComplex
from skitter.page.form import Form
from skitter.page.links import find_hrefs, href_of, nofollow_hrefs
from skitter.urls import fingerprint, join, join_all

Handler = Callable[..., Any]
Link = str | LexborNode
T = TypeVar("T")

_LOG: Final = logging.getLogger("skitter.page")
_REQUIRED: Final[Any] = object()
_BASE: Final = re.compile(r"<base[\s/>]", re.IGNORECASE)
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})


class Page:
    """One answer, with the request that asked for it."""

    __slots__ = (
        "_base",
        "_copies",
        "_decoded",
        "_is_parsable",
        "_links",
        "_metas",
        "_tree",
        "request",
        "response",
        "robot",
        "robots_usage",
        "session",
        "url",
    )

    def __init__(self, request: Request, response: Response, session: Any = None) -> None:
        self.request = request
        self.response = response
        #: In a log-in: what is set in `page.session.headers` is sent from then on.
        self.session = session
        self.url = response.url
        self._decoded: tuple[str, str] | None = None
        self._is_parsable: bool | None = None  # unknown
        self._tree: LexborHTMLParser | None = None
        self._base: str | None = None
        self._links: dict[bool, list[str]] = {}  # with frames, and without
        self._copies = 0
        self._metas: tuple[tuple[str, str], ...] | None = None
        self.robot = "skitter"  # the name by which pages call us
        self.robots_usage = ""  # what robots.txt says about its use

    @classmethod
    def of(
        cls,
        content: str | bytes,
        *,
        url: str = "https://example.com/",
        status: int = 200,
        headers: dict[str, str] | None = None,
        handler: str | Handler | None = None,
    ) -> Self:
        """A page from a literal, for tests of a spider: no server, no network."""
        body = content.encode() if isinstance(content, str) else content
        fields = {"content-type": "text/html; charset=utf-8"} if isinstance(content, str) else {}
        fields |= {name.lower(): value for name, value in (headers or {}).items()}
        response = Response(url=url, status=status, headers=tuple(fields.items()), body=body)
        return cls(Request(url=url, handler=_handler_name(handler)), response)

    def __repr__(self) -> str:
        return f"<Page {self.status} {shorten(self.url)}>"

    # --- what came back ---------------------------------------------------------------------------

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Names in lower case, in the order they came; a name may come twice."""
        return self.response.headers

    def header(self, name: str, default: str | None = None) -> str | None:
        """The first header of that name, in any case."""
        return self.response.header(name, default)

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case: `text/html`. Empty if the server named none."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        """Whether a browser would show it as HTML; a page of unknown type is HTML if it has a tag
        at its beginning."""
        kind = self.content_type
        return kind in _HTML_TYPES if kind else self.text[:1000].lstrip().startswith("<")

    @property
    def body(self) -> bytes:
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
            # Slower and more lenient: NaN, half of an emoji, a line break inside a string.
            return json.loads(self.text, strict=False)
        except (ValueError, RecursionError) as error:
            raise NotJSON(self, f"the body is not JSON: {error}") from None

    # --- how it was asked for ---------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, Any]:
        """What the request carried along."""
        return self.request.meta

    @property
    def depth(self) -> int:
        return self.request.depth

    @property
    def previous(self) -> Visited | None:
        """The visit before this one, of a crawl that visits pages again; None: it is the first. A
        page that has not changed since is not handled."""
        return self.request.visited

    @property
    def is_changed(self) -> bool:
        """Whether it was visited before, and was different then."""
        return self.previous is not None

    # --- elements ---------------------------------------------------------------------------------

    @property
    def tree(self) -> LexborHTMLParser:
        """The parsed document. Shared by all that look at this page: do not change it.

        Raises TooComplex.
        """
        if self._tree is None:
            self._refuse_complex()
            self._tree = LexborHTMLParser(self.text)
        return self._tree

    @property
    def log(self) -> logging.Logger:
        """For `skitter logs`, which shows the page's URL beside the message. Your own loggers do
        the same."""
        return _LOG

    async def prepare(self) -> None:
        """Find out whether it can be parsed, while other pages go on: `tree` would block."""
        if self._is_parsable is None and is_small(self.body):
            self._is_parsable = True  # its text is no longer, and has no more tags
        if self._is_parsable is None and self.is_html:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(trial.thread(), self._can_be_parsed)

    def _can_be_parsed(self) -> bool:
        if self._is_parsable is None:
            self._is_parsable = is_plain(self.text) or trial.can_be_parsed(self.text)
        return self._is_parsable

    def _refuse_complex(self) -> None:
        if not self._can_be_parsed():
            raise TooComplex(self, "its HTML takes the parser too much time or memory")

    def css(self, selector: str) -> list[LexborNode]:
        """All elements that match, in the order of the document."""
        try:
            return self.tree.css(selector)
        except (SelectolaxError, ValueError, TypeError) as error:
            raise BadSelector(selector, str(error)) from None

    @overload
    def css_first(self, selector: str) -> LexborNode: ...
    @overload
    def css_first(self, selector: str, default: T) -> LexborNode | T: ...
    def css_first(self, selector: str, default: Any = _REQUIRED) -> Any:
        """The first element that matches, or the default. Raises NoMatch if there is neither."""
        try:
            found = self.tree.css_first(selector)
        except (SelectolaxError, ValueError, TypeError) as error:
            raise BadSelector(selector, str(error)) from None
        if found is not None:
            return found
        if default is _REQUIRED:
            raise NoMatch(self, selector)
        return default

    def xpath(self, expression: str) -> Any:
        """What lxml finds: elements, strings or a number. Parses the page a second time.

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

    # --- what it asks for -------------------------------------------------------------------------

    @property
    def directives(self) -> frozenset[str]:
        """What X-Robots-Tag and <meta name=robots> say to everybody and to us: noindex, ..."""
        return signals.directives(self.headers, self._find_metas(), robot=self.robot)

    @property
    def usage(self) -> dict[str, bool]:
        """Uses that the page, its headers or robots.txt allow (True) or reserve (False), such as
        `train-ai`, `search` or `tdm`. What nobody spoke of is not there."""
        metas = self._find_metas()
        return signals.usage(self.headers, metas, self.directives, by_robots=self.robots_usage)

    @property
    def canonical(self) -> str | None:
        """The page that this one says it is a copy of, or itself."""
        if not self._is_readable():
            return None
        element = self.tree.css_first('link[rel~="canonical"][href]')
        href = element.attributes.get("href") if element else None
        return join(self.base, href) if href else None

    def nofollow_links(self) -> set[str]:
        """Links that are marked rel=nofollow, and nowhere on the page without it."""
        return set(join_all(self.base, nofollow_hrefs(self.tree))) if self._is_readable() else set()

    def _find_metas(self) -> tuple[tuple[str, str], ...]:
        if self._metas is None:
            elements = self.tree.css("meta[name][content]") if self._is_readable() else []
            pairs = ((one.attributes["name"], one.attributes["content"]) for one in elements)
            self._metas = tuple((str(name).lower(), str(content)) for name, content in pairs)
        return self._metas

    def _is_readable(self) -> bool:
        return self.is_html and self._can_be_parsed()

    # --- links ------------------------------------------------------------------------------------

    @property
    def base(self) -> str:
        """What links are relative to: the page's URL, or its `<base href>`."""
        if self._base is None:
            self._base = self._find_base()
        return self._base

    def _find_base(self) -> str:
        if self._tree is None and not _BASE.search(self.text):
            return self.url  # most pages have none, and some that make links are not parsed at all
        element = self.tree.css_first("base[href]")
        href = element.attributes.get("href") if element else None
        return (join(self.url, href) if href else None) or self.url

    def links(
        self, *, skip_nofollow: bool = False, keep_fragment: bool = False, frames: bool = False
    ) -> list[str]:
        """Where the page's links lead: absolute http(s) URLs, each once, in order.

        `frames`: also the pages that it shows in frames, and the links for who has no frames.
        """
        if skip_nofollow or keep_fragment:
            return self._find_links(
                skip_nofollow=skip_nofollow, keep_fragment=keep_fragment, frames=frames
            )
        if frames not in self._links:
            self._links[frames] = self._find_links(frames=frames)
        return self._links[frames].copy()

    def _find_links(
        self, *, skip_nofollow: bool = False, keep_fragment: bool = False, frames: bool = False
    ) -> list[str]:
        hrefs = find_hrefs(self.tree, skip_nofollow=skip_nofollow, frames=frames)
        if self.encoding != "utf-8":
            hrefs = dict.fromkeys(encode_query(href, self.encoding) for href in hrefs)
        if keep_fragment:
            return list(dict.fromkeys(url for href in hrefs if (url := join(self.base, href))))
        return join_all(self.base, hrefs)

    def absolute(self, link: Link) -> str:
        """The link as a browser resolves it; as it stands, if it does not lead to http(s)."""
        href = self._href(link)
        return join(self.base, encode_query(href, self.encoding)) or href

    def follow(  # noqa: PLR0913 - the fields of a request, by keyword
        self,
        link: Link,
        handler: str | Handler | None = None,
        *,
        priority: int = 0,
        meta: dict[str, Any] | None = None,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes | str = b"",
        json: Any = None,
        session: str | None = None,
        timeout_s: float | None = None,
        max_body_mb: float | None = None,
        country: str = "",
        dont_filter: bool = False,
    ) -> Request:
        """A request for a URL or a node's href, one step deeper than this page.

        No handler: the spider's default. `dont_filter` fetches it although the page is known.
        `country`: two letters, for proxies that can leave from there.
        A body that is text is sent as UTF-8; `json` is one, too. Neither changes the method.
        `session`: the class of sessions to fetch it with, each with its own cookies and log-in;
        None: that of this page.
        """
        return Request(
            url=self.absolute(link),
            method=method,
            headers=headers or {},
            body=body,
            json=json,
            session=self.request.session if session is None else session,
            timeout_s=timeout_s,
            max_body_mb=max_body_mb,
            country=country,
            depth=self.request.depth + 1,
            parent=self.url,
            handler=_handler_name(handler),
            meta=meta or {},
            priority=priority,
            unique=self._next_copy() if dont_filter else "",
        )

    def form(self, selector: str = "form") -> Form:
        """The form that matches: `page.form("#login").fill(user="x").submit(handler)`."""
        return Form(self, self.css_first(selector))

    def follow_all(
        self,
        links: str | Iterable[Link] | None = None,
        handler: str | Handler | None = None,
        *,
        priority: int = 0,
        meta: dict[str, Any] | None = None,
        frames: bool = False,
    ) -> list[Request]:
        """A request for each link: of a CSS selector, of an iterable, or every link of the page,
        `frames` included or not.

        Nodes without href are left out.
        """
        depth, name, meta = self.request.depth + 1, _handler_name(handler), meta or {}
        session = self.request.session
        return [
            Request(
                url=url,
                depth=depth,
                parent=self.url,
                handler=name,
                meta=meta,
                priority=priority,
                session=session,
            )
            for url in (self.links(frames=frames) if links is None else self._urls(links))
        ]

    def _urls(self, links: str | Iterable[Link]) -> Iterable[str]:
        found = self.css(links) if isinstance(links, str) else links
        hrefs = (link for link in found if isinstance(link, str) or href_of(link) is not None)
        return dict.fromkeys(self.absolute(link) for link in hrefs)

    def _href(self, link: Link) -> str:
        href = link if isinstance(link, str) else href_of(link)
        if href is not None:
            return href.strip()
        if isinstance(link, LexborNode):
            what = f"<{link.tag}> has no href: choose elements that have one, such as a[href]"
        else:
            what = f"a {type(link).__name__} is not a link: pass a URL or an element"
        raise NoLink(self, what)

    def _next_copy(self) -> str:
        """What sets a request apart from others of the same page.

        Derived and not drawn: a handler that runs again, after its worker died, asks for the same.
        """
        self._copies += 1
        asked = self.request
        origin = fingerprint(self.url, method=asked.method, body=asked.body, unique=asked.unique)
        return f"{origin}.{self._copies}"


def _handler_name(handler: str | Handler | None) -> str | None:
    """Handlers travel by name: the worker that gets the request may be on another machine."""
    if handler is None or isinstance(handler, str):
        return handler
    name = getattr(handler, "__name__", None)
    if not isinstance(name, str):
        raise UsageError(
            f"{shorten(repr(handler))} cannot be a handler: pass a function decorated with "
            "@spider.page, or its name."
        )
    return name
