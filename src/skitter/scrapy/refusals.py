"""What Scrapy drops silently: statuses that no callback accepts, and failures without errback."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError, HttpErrorMiddleware
from scrapy.spiders import CrawlSpider
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler


def why_unheard(result: Any, crawler: Crawler) -> str | None:
    """Why no callback will get this result; None: one will."""
    if isinstance(result, Failure):
        if isinstance(result.value, IgnoreRequest):
            return None  # deliberate: a middleware dropped it
        return f"{type(result.value).__name__}: {result.getErrorMessage()}".rstrip(": ")
    return refused_status(crawler, result) if isinstance(result, Response) else None


def refused_status(crawler: Crawler, response: Response) -> str | None:
    """The status if HttpErrorMiddleware, which is called to find out, drops the response."""
    if 200 <= response.status < 300:
        return None
    for middleware in crawler.engine.scraper.spidermw.middlewares:
        if isinstance(middleware, HttpErrorMiddleware):
            return _phrase(response.status) if _refuses(middleware, response, crawler) else None
    return None


def unasked_status(crawler: Crawler, response: Any, request: Request) -> str:
    """401 or 403, unless the spider names that status; empty: another result. Whoever gets it may
    have wanted another page: it counts as handled if something comes of it."""
    if not isinstance(response, Response) or response.status not in (401, 403):
        return ""
    own = getattr(crawler.spider, "handle_httpstatus_list", ())
    named = [
        *request.meta.get("handle_httpstatus_list", own),
        *crawler.settings.getlist("HTTPERROR_ALLOWED_CODES"),
    ]
    return "" if str(response.status) in map(str, named) else _phrase(response.status)


def has_errback(request: Request, spider: Spider) -> bool:
    """Whether failures have a handler. A CrawlSpider's own errback only forwards to the rule's,
    which most rules do not have."""
    if getattr(request.errback, "__func__", None) is not CrawlSpider._errback:
        return request.errback is not None
    try:
        rule = spider._rules[request.meta["rule"]]  # type: ignore[attr-defined]
    except (AttributeError, LookupError, TypeError):
        return True  # calling it will fail, and Scrapy will log that
    return rule.errback is not None


def _refuses(middleware: HttpErrorMiddleware, response: Response, crawler: Crawler) -> bool:
    try:
        try:
            middleware.process_spider_input(response)
        except TypeError:  # before Scrapy 2.14
            middleware.process_spider_input(response, crawler.spider)
    except HttpError:
        return True
    return False


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
