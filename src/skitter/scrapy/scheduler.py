"""The scheduler: Scrapy's side of a node. It never blocks; the node does the waiting."""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, signals
from twisted.internet.defer import Deferred

from skitter.engine.leases import is_suspect, must_wait
from skitter.engine.verdict import Policy
from skitter.errors import SkitterError, UsageError
from skitter.frontier.requests import Offer, offer
from skitter.frontier.transport.messages import NOT_PLAIN
from skitter.scrapy.compatibility import SCHEDULER, refuse_overrides
from skitter.scrapy.connection import get_redis_from_settings
from skitter.scrapy.dupefilter import NoDupeFilter, make_dupefilter
from skitter.scrapy.inside.downloads import Downloads, Exchanges
from skitter.scrapy.inside.outbound import StoredProxies, make_guard, without_chosen
from skitter.scrapy.inside.refused import (
    IgnoredRequests,
    LocalScheduler,
    end_opening,
    fail_when_closed,
    has_errback,
    is_local,
    is_refused,
    refuse,
    rejected_item,
    unasked_status,
    why_unheard,
)
from skitter.scrapy.internals import ScrapyEngine
from skitter.scrapy.node.cookies import SharedCookies
from skitter.scrapy.node.mailbox import (
    ORIGIN,
    EngineCalls,
    FailedItem,
    FeedBatch,
    Link,
    LooseCookies,
    LooseItems,
    LooseLinks,
    Mailbox,
    OpenLease,
    Unsent,
)
from skitter.scrapy.node.node import Node
from skitter.scrapy.node.prefetch import FeedOptions
from skitter.scrapy.requests.codec import MAX_REQUEST_BYTES, Codec, own_types
from skitter.scrapy.settings import read_options
from skitter.scrapy.stats import RedisStatsCollector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from skitter.frontier.feed import Messages
    from skitter.model import Lease
    from skitter.scrapy.node.mailbox import Parcel


logger = logging.getLogger(__name__)


class Scheduler:
    """Shares one frontier among all nodes: leased, fenced, polite, accounted for."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.mailbox = Mailbox()
        self._starts: Counter[str] = Counter()  # how often `start` yielded a request

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self | LocalScheduler:
        return LocalScheduler.from_crawler(crawler) if is_local(crawler) else cls(crawler)

    @cached_property
    def server(self) -> Any:
        """A blocking client for user code, created on first use."""
        return get_redis_from_settings(self.crawler.settings)

    def __len__(self) -> int:
        """Requests ready on this node; `skitter status` shows the whole queue."""
        return len(self.mailbox.ready)

    # --- Scrapy's interface -----------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None] | None:
        self.spider = spider
        if is_refused(spider):
            return None
        try:
            self._prepare(spider)
        except UsageError as error:
            refuse(self.crawler, error, spider)
            return None
        opened: Deferred[None] = Deferred()
        self.node.start(partial(self._on_opened, opened))
        return opened

    def _prepare(self, spider: Spider) -> None:
        """Raises UsageError for a setting or a class that cannot be honoured."""
        refuse_overrides(type(self), Scheduler, SCHEDULER)
        self.df = make_dupefilter(self.crawler)
        self.df.memory = self.mailbox.memory
        self._filters = not isinstance(self.df, NoDupeFilter)
        options = read_options(self.crawler.settings, spider)
        self.options = replace(options, fingerprinter=self.df.name)
        self.layout = self.options.layout
        self.engine = ScrapyEngine(self.crawler)
        self.codec = Codec(
            spider,
            self.engine.slot_of,
            ranked=self.options.order == "priority",
            check_meta=StoredProxies(self.crawler.settings).check,
            types=own_types(self.crawler.settings),
        )
        feed = getattr(spider, "feed", None)
        self.node = Node(
            self.options,
            self.mailbox,
            self.engine,
            self._engine_calls(),
            feed=feed if isinstance(feed, FeedOptions) else None,
        )
        if not self.options.prefetch:
            self.mailbox.supplied = self.options.concurrency
        self.engine.leave_delays_to_the_frontier(self.options)
        self.engine.share_robots()
        self.engine.share_cookies(SharedCookies(self.mailbox, self._put).share)
        self.guard = make_guard(self.crawler, spider, self.engine)
        self.downloads = Downloads(self.node, self.mailbox)
        policy = Policy(blocked_rest_s=self.options.blocked_rest_s)
        self.exchanges = Exchanges(self.crawler, self.mailbox, self.downloads, policy)
        self.engine.before_download(self.downloads.leave, self.exchanges.note_failure)
        self.ignored = IgnoredRequests(self.crawler, self.mailbox, self._put)
        self.ignored.listen(self.engine)
        self.engine.on_output(self._in_context)
        self.engine.on_finished(self._finish)
        self.crawler.signals.connect(self._callback_failed, signals.spider_error)
        self.crawler.signals.connect(self._pipeline_failed, signals.item_error)
        self.crawler.signals.connect(self._item_scraped, signals.item_scraped)

    def _engine_calls(self) -> EngineCalls:
        calls = EngineCalls(self._read_feed, self._send_ahead, self._drop)
        if isinstance(self.crawler.stats, RedisStatsCollector):
            calls.statistics = self.crawler.stats.begin(self.spider.name)
        if self._filters:
            calls.identify = self.df.identify
        return calls

    def _on_opened(self, opened: Deferred[None], error: BaseException | None) -> None:
        if error is not None:
            end_opening(self.crawler, opened, error)
            return
        if self.mailbox.is_adopted:
            self.df.go_on_as_scrapy_redis()
        if queued := self.mailbox.scheduled:
            self.spider.logger.info("Resuming crawl (%d requests scheduled)", queued)
        self.df.open()
        opened.callback(None)

    def close(self, reason: str) -> Deferred[None]:
        closed: Deferred[None] = Deferred()
        if hasattr(self, "df"):
            self.df.close(reason)
        if not hasattr(self, "node"):
            closed.callback(None)
        else:
            self.node.stop(reason, partial(self._on_closed, closed))
        return closed

    def _on_closed(self, closed: Deferred[None]) -> None:
        if self.node.has_failed and not closed.called:
            fail_when_closed(self.crawler)
        _fire(closed)

    def has_pending_requests(self) -> bool:
        """Whether any node has work left, as far as this node knows."""
        mailbox = self.mailbox
        return bool(mailbox.ready) or mailbox.finished_at != mailbox.version

    def enqueue_request(self, request: Request) -> bool:
        """Never raises: each time, Scrapy would lose a worker. False: it is a duplicate."""
        try:
            return self._enqueue(request)
        except Exception:
            logger.exception("skitter: internal error, %s was not enqueued", request)
            self._reject(request, "an internal error: see the node's log")
            return True

    def next_request(self) -> Request | None:
        ready = self.mailbox.ready
        while ready:
            if (self._is_alone(ready[0]) or self._alone()) and self.mailbox.is_working:
                return None  # a page that may kill the process runs alone
            if must_wait(ready[0], self.node.frontier):
                return None  # until the server knows
            lease = ready.popleft()
            self.mailbox.version += 1
            self.mailbox.begun += 1
            if self.mailbox.runs_low:
                self.node.nudge(hurry=True)
            if request := self._open_lease(lease):
                self._count("dequeued")
                return request
        return None

    # --- incoming requests ------------------------------------------------------------------------

    def _enqueue(self, request: Request) -> bool:
        is_start = "is_start_request" in request.meta and ORIGIN.get() is None
        if self.guard and self.guard.trusts_start and is_start:
            self.guard.allow_seed(request.url)
        key = self.df.key_of(request) if self._filters and not request.dont_filter else b""
        origin = ORIGIN.get()
        page = origin if isinstance(origin, OpenLease) and not origin.is_over else None
        if key and (key in self.mailbox.memory or (page and key in page.keys)):
            self.df.log(request, self.spider)
            self._stats("dupefilter/filtered")
            return False
        try:
            link = Link(key, self._offer(request, key), request)
        except (UsageError, *NOT_PLAIN) as error:
            self._reject(request, str(error))
            return True
        self._count("enqueued")
        if page:
            page.links.append(link)
            page.keys.add(key)
        elif isinstance(origin, FeedBatch):
            origin.links.append(link)
        else:
            self._put(LooseLinks([link]))
        return True

    def _offer(self, request: Request, key: bytes) -> Offer:
        identity = (key or self.df.key_of(request)).hex()
        unique = "" if key else self._unique(request, identity)
        stored = without_chosen(request, ORIGIN.get())
        packed = self.codec.pack(stored, identity, unique=unique)
        return offer(packed, self.layout, limit_bytes=MAX_REQUEST_BYTES)

    def _unique(self, request: Request, identity: str) -> str:
        """What makes an unfiltered request unique. Stable when a feed batch is read again, and
        across the nodes of a run that start with the same request."""
        origin = ORIGIN.get()
        if isinstance(origin, FeedBatch):
            return f"{origin.name}/{len(origin.links)}"
        if origin is None and request.meta.get("is_start_request"):
            self._starts[identity] += 1
            run, times = self.mailbox.run, self._starts[identity]
            # In the first run nothing was seen before, so it is an ordinary request, and a page
            # that links back to it cannot add it again.
            return "" if (run, times) == (1, 1) else f"start/{run}/{times}"
        return uuid.uuid4().hex

    def _reject(self, request: Request, reason: str) -> None:
        logger.error("%s became a dead letter: %s", request, reason)
        self._stats("skitter/rejected")
        self._put(Unsent(f"{request.method} {request.url}", reason))

    def _drop(self, links: list[Link]) -> None:
        """The frontier already had these: report them as Scrapy reports duplicates."""
        for link in links:
            self.df.log(link.request, self.spider)
            self._stats("dupefilter/filtered")
            self.crawler.signals.send_catch_log(
                signals.request_dropped, request=link.request, spider=self.spider
            )

    # --- outgoing requests ------------------------------------------------------------------------

    def _open_lease(self, lease: Lease) -> Request | None:
        entry = OpenLease(lease, time.monotonic())
        try:
            request = self.codec.unpack(lease.request)
        except Exception as error:  # a user-defined class may raise anything
            entry.error = str(error)
            self._end(entry)
            return None
        entry.is_routed = bool(request.meta.get("proxy"))
        self.mailbox.active[request] = entry
        return request

    def _is_alone(self, lease: Lease) -> bool:
        return is_suspect(lease, self.node.frontier)

    def _alone(self) -> bool:
        return len(self.mailbox.active) == 1 and self._is_alone(
            next(iter(self.mailbox.active.values())).lease
        )

    # --- results ----------------------------------------------------------------------------------

    @contextmanager
    def _in_context(self, result: Any, request: Request) -> Iterator[bool]:
        """Everything Scrapy does with a result belongs to the lease of its request."""
        entry = self.mailbox.active.get(request)
        if entry is not None:
            self.exchanges.note_result(entry, result, request)
            if not entry.is_routed:
                entry.proxy = request.meta.get("proxy")
            self.ignored.note_page(entry, result, request)
            entry.unasked = unasked_status(self.crawler, result, request)
            if not has_errback(request, self.spider):
                entry.error = why_unheard(result, self.crawler)
        token = ORIGIN.set(entry)
        try:
            yield entry is None or not entry.is_returned
        finally:
            ORIGIN.reset(token)

    def _callback_failed(self, failure: Failure, response: Any) -> None:
        request = getattr(response, "request", None)
        entry = self.mailbox.active.get(request) if request is not None else None
        if entry is None and isinstance(origin := ORIGIN.get(), OpenLease):
            entry = origin
        if entry is not None:
            entry.error = f"{type(failure.value).__name__}: {failure.getErrorMessage()}"

    def _pipeline_failed(self, item: Any, response: Any, failure: Failure) -> None:
        """Reject the item only: the page is done, and fetching it again would not help."""
        origin = ORIGIN.get()
        url = origin.lease.url if isinstance(origin, OpenLease) else getattr(response, "url", "")
        self._stats("skitter/items_rejected")
        self._put(FailedItem(rejected_item(item, url=url, error=failure.value)))

    def _item_scraped(self) -> None:
        self.mailbox.scraped += not self.mailbox.is_streamed
        if isinstance(origin := ORIGIN.get(), OpenLease):
            origin.found += 1

    def _finish(self, request: Request) -> None:
        """Callback, children and pipelines are done."""
        if entry := self.mailbox.active.pop(request, None):
            self._end(entry)

    def _end(self, entry: OpenLease) -> None:
        entry.is_over = True
        if entry.unasked and entry.is_barren and not entry.error:
            entry.error = f"{entry.unasked}: neither a request nor an item came of it"
        mailbox = self.mailbox
        self._put(entry)
        if mailbox.runs_low:
            self.node.nudge(hurry=True)

    def _put(self, something: Parcel) -> None:
        self.mailbox.version += 1
        self.mailbox.outbox.add(something)
        self.node.nudge()

    def _send_ahead(self) -> None:
        """Send the links found so far on slow pages without waiting for the pages to finish."""
        old = time.monotonic() - 1
        for entry in self.mailbox.active.values():
            if entry.links and entry.since_s < old:
                for session, changes in entry.cookies.items():
                    self._put(LooseCookies(session, changes))
                entry.cookies = {}
                links, entry.links = entry.links, []
                self._put(LooseLinks(links))

    # --- the feed and items -----------------------------------------------------------------------

    def _read_feed(self, messages: Messages) -> None:
        """Turn messages into requests with the spider's own method, in the engine's thread."""
        feed: FeedOptions = self.spider.feed  # type: ignore[attr-defined]
        batch = FeedBatch(messages.name, messages.place)
        token = ORIGIN.set(batch)
        try:
            for text, score in zip_longest(messages.texts, messages.scores, fillvalue=0):
                self._read_message(batch, text, feed.priority(score, messages.behind))
        finally:
            ORIGIN.reset(token)
            self.mailbox.fed += len(batch.links)
            self._put(batch)
            self.node.note_feed_read()

    def _read_message(self, batch: FeedBatch, message: Any, priority: int) -> None:
        try:
            for request in self.spider.requests_from(message):  # type: ignore[attr-defined]
                request.priority = request.priority or priority
                self.crawler.engine.crawl(request)
        except SkitterError as error:
            batch.rejected.append((message, str(error)))
        except Exception as error:
            batch.rejected.append((message, f"{type(error).__name__}: {error}"))

    def push_item(self, key: str, item: bytes) -> None:
        """Push an item to a list, in one step with the completion of its page, if any."""
        origin = ORIGIN.get()
        if isinstance(origin, OpenLease) and not origin.is_over:
            origin.add_push(key, item)
        else:
            self._put(LooseItems([(key, item)]))

    def put_item(self, item: Any, size_bytes: int) -> bool:
        """Add an item to the job's stream when its page completes. False: it has no page."""
        self.mailbox.is_streamed = True
        origin = ORIGIN.get()
        if isinstance(origin, OpenLease) and not origin.is_over:
            origin.add_item(item, size_bytes)
            return True
        return False

    # --- counting ---------------------------------------------------------------------------------

    def _count(self, what: str) -> None:
        self._stats(f"scheduler/{what}")
        self._stats(f"scheduler/{what}/redis")

    def _stats(self, name: str) -> None:
        if self.crawler.stats is not None:
            self.crawler.stats.inc_value(name)


def _fire(waiting: Deferred[None]) -> None:
    if not waiting.called:
        waiting.callback(None)


def scheduler_of(crawler: Crawler) -> Scheduler | LocalScheduler:
    """The scheduler of an open spider, for pipelines and spiders. Raises UsageError if it is not
    ours."""
    engine: Any = crawler.engine
    found = engine._slot.scheduler
    # By type: Scrapy's isinstance is duck-typed, and true of every scheduler.
    if not isinstance(found, Scheduler) and type(found) is not LocalScheduler:
        raise UsageError(
            "this part of Skitter works with Skitter's scheduler: "
            "set SCHEDULER = 'skitter.scrapy.Scheduler'."
        )
    return found
