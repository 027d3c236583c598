"""What is refused or dropped: bad settings, requests, responses, items."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

import scrapy
from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.httperror import HttpError, HttpErrorMiddleware
from scrapy.spidermiddlewares.urllength import UrlLengthMiddleware
from scrapy.spiders import CrawlSpider
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure

from skitter.errors import SkitterError
from skitter.fetch.robots import product_token
from skitter.frontier.completions import MAX_ITEM_BYTES
from skitter.frontier.feed import ExcludedLink
from skitter.frontier.items import RejectedItem
from skitter.frontier.transport.messages import NOT_PLAIN, cut, encode
from skitter.scrapy.node.mailbox import ORIGIN, Ignored, OpenLease, RobotsFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from skitter.scrapy.internals import ScrapyEngine
    from skitter.scrapy.node.mailbox import Mailbox, Parcel


logger = logging.getLogger(__name__)

_COMMANDS = frozenset({"scrapy.commands.check", "scrapy.commands.parse", "scrapy.commands.fetch"})


def is_local(crawler: Crawler) -> bool:
    """Whether this process looks at a page and does not crawl: `scrapy check`, `parse`, `fetch`,
    `view`, `shell`.

    `shell` creates an engine without a crawl; the others (Scrapy 2.13 to 2.19) replace `start` in
    the spider's class.
    """
    start = getattr(crawler.spidercls, "start", None)
    return not crawler.crawling or getattr(start, "__module__", None) in _COMMANDS


class LocalScheduler(ScrapyScheduler):
    """Scrapy's own scheduler, in memory only, for commands that do not crawl.

    They would do harm in the job: `check` runs no pipelines, so a page that it took would lose its
    items, and requests of `shell` cannot be serialized. It has the methods that our pipelines call.
    """

    _has_said = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        named = settings.get("DUPEFILTER_CLASS")
        filters = crawler.crawling and named != "scrapy.dupefilters.BaseDupeFilter"
        return cls(
            dupefilter=RFPDupeFilter.from_crawler(crawler) if filters else BaseDupeFilter(),
            mqclass=load_object(settings["SCHEDULER_MEMORY_QUEUE"]),
            pqclass=load_object(settings["SCHEDULER_PRIORITY_QUEUE"]),
            stats=crawler.stats,
            crawler=crawler,
        )

    def push_item(self, key: str, item: bytes) -> None:
        self.put_item(item, len(item))

    def put_item(self, item: Any, size_bytes: int) -> bool:
        """Drops the item: this is not a crawl."""
        if not self._has_said:
            logger.info("skitter: this command does not crawl, so its items are not stored")
        self._has_said = True
        return True


settings_logger = logging.getLogger("skitter.scrapy")

#: Why the spider was closed, in Scrapy's log and its stats.
REASON = "skitter_refused"
_MARK = "_skitter_refused"  # an attribute of the spider
CLOSES_QUIETLY = scrapy.version_info >= (2, 18)


def refuse(crawler: Crawler, error: BaseException, spider: Spider | None = None) -> None:
    """Have the crawl end before its first request: one sentence in the log, and exit code 1.

    Scrapy logs every exception of a component with its stack trace, except one: from 2.18 on, a
    crawl ends quietly if CloseSpider is raised when its spider has opened. Earlier releases get the
    error itself, and so does every release if the error does not explain itself. `spider`: if the
    crawler has none yet.
    """
    if not isinstance(error, SkitterError):
        raise error
    if not CLOSES_QUIETLY:
        fail_when_closed(crawler)
        raise error
    settings_logger.error("%s", error)
    setattr(spider or crawler.spider, _MARK, True)

    def close() -> None:
        fail_when_closed(crawler)
        raise CloseSpider(REASON)

    crawler.signals.connect(close, signals.spider_opened, weak=False)


def fail_when_closed(crawler: Crawler) -> None:
    """A crawl that is closed has exit code 0, one that ends without a spider 1. To be called late:
    handlers that were connected before may still need the spider."""

    def forget_spider() -> None:
        crawler.spider = None

    crawler.signals.connect(forget_spider, signals.spider_closed, weak=False)


def is_refused(spider: Spider) -> bool:
    """Whether its crawl will not begin."""
    return getattr(spider, _MARK, False)


def end_opening(crawler: Crawler, opened: Deferred[None], error: BaseException) -> None:
    """What a scheduler has to do if it could not be opened."""
    try:
        refuse(crawler, error)
    except BaseException:
        opened.errback(error)
    else:
        opened.callback(None)


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


class IgnoredRequests:
    """Records requests that middlewares keep out of a crawl, links and leased pages, for `status`
    and `why`: the reason, and the robots.txt files.

    Recorded in the engine's thread, sent by the node's.
    """

    def __init__(self, crawler: Crawler, mailbox: Mailbox, put: Callable[[Parcel], None]) -> None:
        self._crawler, self._mailbox, self._put = crawler, mailbox, put

    def listen(self, engine: ScrapyEngine) -> None:
        engine.on_ignored(self.note_link)
        engine.on_robots(self._note_robots)

    def note_link(self, request: Request, by: Any, said: str) -> None:
        """A link that never reaches the scheduler."""
        origin = ORIGIN.get()
        self._note(request, by, said, origin.lease.url if isinstance(origin, OpenLease) else "")

    def note_page(self, entry: OpenLease, result: Any, request: Request) -> None:
        """A leased page that was not fetched."""
        if isinstance(result, Failure) and isinstance(result.value, IgnoreRequest):
            middlewares = self._crawler.engine.downloader.middleware.middlewares
            by = _raiser(result.value, middlewares)
            self._note(request, by, str(result.value), entry.lease.request.parent or "")

    def _note(self, request: Request, by: Any, said: str, found_on: str) -> None:
        """Pages of a site share most of their refused links: report each once."""
        if request.url not in self._mailbox.refused:
            kind, reason = self._why(request, by, said)
            self._put(Ignored(request.url, ExcludedLink(kind, reason, found_on)))

    def _why(self, request: Request, by: Any, said: str) -> tuple[str, str]:
        if isinstance(by, RobotsTxtMiddleware):
            return "robots", product_token(self._robot_of(request))
        if isinstance(by, OffsiteMiddleware):
            return "scope", f"{urlparse_cached(request).hostname} is not in allowed_domains"
        if isinstance(by, DepthMiddleware):
            depth = request.meta.get("depth")
            return "depth", f"it is at depth {depth}; DEPTH_LIMIT is {by.maxdepth}"
        if isinstance(by, UrlLengthMiddleware):
            size = len(request.url)
            return "length", f"its URL has {size:,} characters; URLLENGTH_LIMIT is {by.maxlength:,}"
        who = type(by).__name__ if by is not None else "a Scrapy middleware"
        return "middleware", f"{who} ignored it: {said}".removesuffix(": ")

    def _robot_of(self, request: Request) -> str:
        """The user agent that RobotsTxtMiddleware uses."""
        settings = self._crawler.settings
        sent = request.headers.get("User-Agent") or b""
        name = settings.get("ROBOTSTXT_USER_AGENT") or sent.decode("latin-1")
        return str(name or settings.get("USER_AGENT"))

    def _note_robots(self, answer: Response, netloc: str) -> None:
        if 200 <= answer.status < 300:
            scheme = urlparse_cached(answer).scheme
            self._put(RobotsFile(f"{scheme}://{netloc}/", answer.status, answer.body))


def _raiser(error: BaseException, among: Iterable[Any]) -> Any:
    """The middleware that raised it, itself or through what it calls; None: unknown."""
    ours, found, trace = {id(one): one for one in among}, None, error.__traceback__
    while trace is not None:
        found = ours.get(id(trace.tb_frame.f_locals.get("self")), found)
        trace = trace.tb_next
    return found


def rejected_item(item: Any, *, url: str, error: BaseException | None) -> RejectedItem:
    """An item that a pipeline failed on, as `skitter rejected` shows it: as far as it can be
    serialized."""
    reason = cut(f"{type(error).__name__}: {error}".rstrip(": "))
    return RejectedItem(url=url, field="", reason=reason, item=_writable(item))


def _writable(item: Any) -> Any:
    """Unchanged if it can be stored; otherwise unstorable fields become text, truncated to fit."""
    fields = ItemAdapter(item).asdict() if ItemAdapter.is_item(item) else {"item": item}
    if _fits(fields):
        return fields
    room = MAX_ITEM_BYTES // len(fields)
    return {
        ascii(str(name))[1:-1]: value if _fits(value, room) else ascii(value)[:room]
        for name, value in fields.items()
    }


def _fits(value: Any, limit: int = MAX_ITEM_BYTES) -> bool:
    try:
        return len(encode(value)) <= limit
    except NOT_PLAIN:
        return False
