"""Page: a response as a handler sees it, with methods to request more.

An invalid link becomes a request that the scope refuses and counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

import msgspec
from selectolax.lexbor import LexborNode

from skitter.errors import UsageError, shorten
from skitter.fetch.html.encoding import encode_query
from skitter.model import Request, Response, Visited
from skitter.spider.named_files import FIELD, file_request
from skitter.spider.page.document import find_hrefs, href_of
from skitter.spider.page.form import Form
from skitter.spider.page.reading import Readable
from skitter.spider.page.selectors import NoLink
from skitter.urls import fingerprint, join, join_all

Handler = Callable[..., Any]
Link = str | LexborNode

_LOG: Final = logging.getLogger("skitter.page")


class Page(Readable):
    """A response and its request."""

    __slots__ = ("_copies", "_links", "request", "session")

    def __init__(self, request: Request, response: Response, session: Any = None) -> None:
        super().__init__(response)
        self.request = request
        #: During a log-in: headers set in `page.session.headers` are sent from then on.
        self.session = session
        self._links: dict[bool, list[str]] = {}  # with and without frames
        self._copies = 0

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
        """A page from a literal, for testing spiders without a server or network."""
        body = content.encode() if isinstance(content, str) else content
        fields = {"content-type": "text/html; charset=utf-8"} if isinstance(content, str) else {}
        fields |= {name.lower(): value for name, value in (headers or {}).items()}
        response = Response(url=url, status=status, headers=tuple(fields.items()), body=body)
        return cls(Request(url=url, handler=_handler_name(handler)), response)

    def __repr__(self) -> str:
        return f"<Page {self.status} {shorten(self.url)}>"

    # --- its request ------------------------------------------------------------------------------

    @property
    def meta(self) -> dict[str, Any]:
        """The request's `meta`."""
        return self.request.meta

    @property
    def depth(self) -> int:
        """Links from a start URL to this page."""
        return self.request.depth

    @property
    def previous(self) -> Visited | None:
        """The previous visit, in a crawl that revisits pages; None: this is the first. Handlers do
        not get pages that have not changed since."""
        return self.request.visited

    @property
    def is_changed(self) -> bool:
        """Whether it has changed since an earlier visit."""
        return self.previous is not None

    @property
    def log(self) -> logging.Logger:
        """For `skitter logs`, which shows the page's URL next to the message. Your own loggers work
        the same way."""
        return _LOG

    # --- links ------------------------------------------------------------------------------------

    def links(
        self, *, skip_nofollow: bool = False, keep_fragment: bool = False, frames: bool = False
    ) -> list[str]:
        """The targets of the page's links: absolute http(s) URLs, each once, in order.

        `frames`: include the pages shown in frames, and the links in `<noframes>`.
        """
        if skip_nofollow or keep_fragment:
            return self._find_links(
                skip_nofollow=skip_nofollow, keep_fragment=keep_fragment, frames=frames
            )
        if frames not in self._links:
            self._links[frames] = self._find_links(frames=frames)
        return self._links[frames].copy()

    @property
    def links_at_hand(self) -> list[str]:
        """The links as somebody has found them, with or without frames; else those without."""
        return next(iter(self._links.values()), None) or self.links()

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
        """The link as a browser resolves it; unchanged if the result is not an http(s) URL."""
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

        Without a handler, the spider's default gets it. `dont_filter`: fetch it even if known.
        `country`: two letters, for proxies with exits in several countries.
        A text body is sent as UTF-8; `json` is also sent as the body. Neither changes the method.
        `session`: the class of sessions to use, each with its own cookies and log-in; None: the
        same as for this page.
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

    def download(
        self,
        link: Link,
        *,
        field: str | None = None,
        headers: dict[str, str] | None = None,
        priority: int = 0,
    ) -> Request:
        """A request for a file, which is streamed to disk: docs/howto/files.md.

        `field`: where the page's items say which file it is, with path, size, type and digest.
        """
        meta = {FIELD: field} if field else {}
        request = file_request(self.absolute(link), parent=self.url, asked=self.request, meta=meta)
        return msgspec.structs.replace(request, headers=headers or {}, priority=priority)

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
        """A request for each link: from a CSS selector, an iterable, or all links of the page, with
        or without `frames`.

        Nodes without href are skipped.
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
        """What makes a request unique among those for the same URL.

        Derived, not random: a handler that runs again after its worker died makes the same request.
        """
        self._copies += 1
        asked = self.request
        origin = fingerprint(self.url, method=asked.method, body=asked.body, unique=asked.unique)
        return f"{origin}.{self._copies}"


def _handler_name(handler: str | Handler | None) -> str | None:
    """Handlers are sent by name: the worker that gets the request may be on another machine."""
    if handler is None or isinstance(handler, str):
        return handler
    name = getattr(handler, "__name__", None)
    if not isinstance(name, str):
        raise UsageError(
            f"{shorten(repr(handler))} cannot be a handler: pass a function decorated with "
            "@spider.page, or its name."
        )
    return name
