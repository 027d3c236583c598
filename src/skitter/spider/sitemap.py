"""Sitemaps as requests of the crawl, with our own handler: any worker reads them, and they are
fetched politely, retried and resumed like pages.

    robots.txt ── Sitemap: ──> index ──> sitemap ──> pages
         └───── none named ──> /sitemap.xml ── nothing there ──> feeds that the start URL names
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from skitter.domains import registrable_domain
from skitter.errors import BadOption, UsageError
from skitter.fetch.html.feeds import (
    MAX_SITEMAPS,
    MAX_URLS,
    PIECE_BYTES,
    NotASitemap,
    SitemapEntry,
    read_sitemap,
)
from skitter.fetch.robots import RobotsRules, robots_url
from skitter.model import Request
from skitter.urls import identify, join

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from skitter.spider.page import Page

T = TypeVar("T")

#: The handler's name, which no function can have.
SITEMAP: Final = "skitter.sitemap"
#: Links per sitemap, regardless of `max_links_per_page`: the protocol's limit.
MAX_LINKS: Final = MAX_URLS + MAX_SITEMAPS
#: How deeply indexes may be nested.
DEEPEST: Final = 3
#: Priority of robots.txt and the first sitemaps, above pages.
FIRST: Final = 500
#: How a page names its feeds, and how many of them to read.
FEEDS: Final = (
    'link[rel~="alternate"][type="application/rss+xml"],'
    'link[rel~="alternate"][type="application/atom+xml"]'
)
MAX_FEEDS: Final = 20
#: Entries to yield before giving other pages a turn.
AT_ONCE: Final = 500

_KEY: Final = "_sitemap"  # of `Request.meta`


class Errand(msgspec.Struct, frozen=True, omit_defaults=True):
    """The purpose of a sitemap request; stored in `Request.meta`."""

    site: str  # the registrable domain whose pages it lists
    level: int = 1  # 0: robots.txt
    is_guess: bool = False  # it may not exist
    home: str = ""  # the page to search for feeds if this lists nothing
    is_home: bool = False  # this is that page


def errand_of(request: Request) -> Errand:
    """For a request with our handler that we did not create, its own site."""
    try:
        return msgspec.convert(request.meta.get(_KEY), Errand)
    except msgspec.ValidationError:
        return Errand(_site_of(request.url))


def may_be_missing(request: Request) -> bool:
    """Whether a 404 is an acceptable answer."""
    return request.handler == SITEMAP and errand_of(request).is_guess


def sitemap_request(url: str) -> Request:
    """A request for a sitemap or a feed. Raises BadURL."""
    return _request(identify(url).url, Errand(_site_of(url)))


def discovery_request(url: str, *, with_feeds: bool = False) -> Request:
    """A request for the robots.txt of a URL's host, to find its sitemaps or, failing that, the
    feeds that the URL's page names. Raises BadURL."""
    home = url if with_feeds else ""
    return _request(robots_url(url), Errand(_site_of(url), level=0, is_guess=True, home=home))


def check_sitemap(sitemap: object) -> tuple[str, ...]:
    """The addresses that `Spider(sitemap=...)` names. Raises BadOption."""
    if isinstance(sitemap, bool):
        return ()
    urls = (sitemap,) if isinstance(sitemap, str) else sitemap
    expected = "True, or the URL of a sitemap or a feed, or a list of them"
    if not isinstance(urls, list | tuple) or not all(isinstance(url, str) for url in urls):
        raise BadOption("sitemap", sitemap, expected)
    for url in urls:
        try:
            identify(url)
        except UsageError:
            raise BadOption("sitemap", url, expected) from None
    return tuple(urls)


async def list_pages(page: Page) -> AsyncIterator[Request]:
    """The handler. Its pages count as start URLs, so they have the depth of the sitemap: 0."""
    errand = errand_of(page.request)
    if errand.level == 0:
        rules = RobotsRules.from_response(page.status, page.body, at=0)
        for request in _named_by_robots(
            page, errand, await _in_thread(page, lambda: rules.sitemaps)
        ):
            yield request
    elif errand.is_home:
        for request in await _feeds_of(page, errand):
            yield request
    else:
        is_empty = True
        async for request in _listed(page, errand):
            is_empty = False
            yield request
        if is_empty and errand.home:
            look = Errand(errand.site, is_guess=True, is_home=True)
            yield msgspec.structs.replace(
                _request(errand.home, look, parent=page.url), unique="feeds"
            )


async def _feeds_of(page: Page, errand: Errand) -> list[Request]:
    """Requests for the page's feeds on the same site."""
    await page.prepare()
    nodes = page.css(FEEDS)[:MAX_FEEDS] if page.is_html and page.status < 400 else []
    named = [join(page.base, node.attributes.get("href") or "") for node in nodes]
    ours = [url for url in dict.fromkeys(named) if url and _site_of(url) == errand.site]
    return [_request(url, Errand(errand.site, is_guess=True), parent=page.url) for url in ours]


def _named_by_robots(page: Page, errand: Errand, links: tuple[str, ...]) -> Iterator[Request]:
    """On any host: being named in robots.txt proves that the site wants them read."""
    named = [url for link in links[:MAX_SITEMAPS] if (url := join(page.url, link))]
    for url in dict.fromkeys(named):
        yield _request(url, Errand(errand.site), parent=page.url)
    if not named and (guess := join(page.url, "/sitemap.xml")):
        there = Errand(errand.site, is_guess=True, home=errand.home)
        yield _request(guess, there, parent=page.url)


async def _listed(page: Page, errand: Errand) -> AsyncIterator[Request]:
    if page.status >= 400:  # a wrong guess
        return
    try:
        found = await _in_thread(page, lambda: read_sitemap(page.body, url=page.url))
    except NotASitemap as error:
        if errand.is_guess:
            return
        raise UsageError(f"it is not a sitemap: {error}") from None
    if found.cut:
        page.log.warning("only part of the sitemap was read: %s", found.cut)
    now = time.time()
    for request in _children(page, errand, found.sitemaps, now=now):
        yield request
    for number, entry in enumerate(found.pages, start=1):
        yield Request(
            url=entry.url, depth=page.depth, parent=page.url, priority=entry.priority(now=now)
        )
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


async def _in_thread(page: Page, read: Callable[[], T]) -> T:
    """Only if it is large: 50,000 URLs, or a robots.txt of 500 KiB, take most of a second."""
    return read() if len(page.body) <= PIECE_BYTES else await asyncio.to_thread(read)


def _children(
    page: Page, errand: Errand, sitemaps: list[SitemapEntry], *, now: float
) -> Iterator[Request]:
    if errand.level >= DEEPEST and sitemaps:
        page.log.warning("its %d sitemaps are skipped: the limit is %d levels",
                         len(sitemaps), DEEPEST)  # fmt: skip
        return
    at_home = {errand.site, _site_of(page.url)}
    ours = [sitemap for sitemap in sitemaps if _site_of(sitemap.url) in at_home]
    if len(ours) < len(sitemaps):
        page.log.warning("%d sitemaps on other sites are skipped", len(sitemaps) - len(ours))
    below = Errand(errand.site, level=errand.level + 1)
    for entry in ours:
        yield _request(entry.url, below, parent=page.url, priority=entry.priority(now=now))


def _request(
    url: str, errand: Errand, *, parent: str | None = None, priority: int = FIRST
) -> Request:
    meta = {_KEY: msgspec.to_builtins(errand)}
    return Request(url=url, handler=SITEMAP, meta=meta, parent=parent, priority=priority)


def _site_of(url: str) -> str:
    return registrable_domain(identify(url).host)
