"""Requests that Scrapy's middlewares keep out of a crawl, for `status` and `why`: the reason, and
the robots.txt files. Recorded in the engine's thread, sent by the node's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.spidermiddlewares.urllength import UrlLengthMiddleware
from scrapy.utils.httpobj import urlparse_cached
from twisted.python.failure import Failure

from skitter.fetch.robots import product_token
from skitter.frontier.admin.refusals import Refusal
from skitter.scrapy.mailbox import ORIGIN, Entry, Ignored, RobotsFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from skitter.scrapy.internals import ScrapyEngine
    from skitter.scrapy.mailbox import Mailbox, Parcel


class IgnoredRequests:
    """Records requests that a middleware ignores: links, and leased pages."""

    def __init__(self, crawler: Crawler, mailbox: Mailbox, put: Callable[[Parcel], None]) -> None:
        self._crawler, self._mailbox, self._put = crawler, mailbox, put

    def listen(self, engine: ScrapyEngine) -> None:
        engine.on_ignored(self.note_link)
        engine.on_robots(self._note_robots)

    def note_link(self, request: Request, by: Any, said: str) -> None:
        """A link that never reaches the scheduler."""
        origin = ORIGIN.get()
        self._note(request, by, said, origin.lease.url if isinstance(origin, Entry) else "")

    def note_page(self, entry: Entry, result: Any, request: Request) -> None:
        """A leased page that was not fetched."""
        if isinstance(result, Failure) and isinstance(result.value, IgnoreRequest):
            middlewares = self._crawler.engine.downloader.middleware.middlewares
            by = _raiser(result.value, middlewares)
            self._note(request, by, str(result.value), entry.lease.request.parent or "")

    def _note(self, request: Request, by: Any, said: str, found_on: str) -> None:
        """Pages of a site share most of their refused links: report each once."""
        if request.url not in self._mailbox.refused:
            kind, reason = self._why(request, by, said)
            self._put(Ignored(request.url, Refusal(kind, reason, found_on)))

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
