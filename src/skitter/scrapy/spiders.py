"""Spiders fed from outside: `redis-cli lpush books:start_urls https://...`."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.spiders import CrawlSpider, Rule

from skitter.errors import UsageError, shorten
from skitter.scrapy.compatibility import SPIDER, refuse_overrides
from skitter.scrapy.connection import get_redis_from_settings
from skitter.scrapy.inside.refused import LocalScheduler, refuse
from skitter.scrapy.node.prefetch import FeedOptions
from skitter.scrapy.requests.codec import find_public_callback, request_fields
from skitter.scrapy.scheduler import Scheduler, scheduler_of
from skitter.scrapy.settings import Unusable, encoding, fill, whole, whole_setting
from skitter.scrapy.utils import bytes_to_str

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

DEFAULT_KEY = "%(name)s:start_urls"


class RedisMixin:
    """Takes requests from a list, set or sorted set that others push to, read continuously."""

    redis_key: str | list[str] | None = None
    redis_batch_size: int | None = None
    redis_encoding: str | None = None
    max_idle_time: int | None = None

    if TYPE_CHECKING:
        name: str
        crawler: Crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider: Any = None
        try:
            spider = super().from_crawler(crawler, *args, **kwargs)  # type: ignore[misc]
            spider.setup_redis(crawler)
        except UsageError as error:
            spider = spider or Spider.from_crawler(crawler, name=cls.name)  # to be closed at once
            refuse(crawler, error, spider)
        made: Self = spider
        return made

    @cached_property
    def server(self) -> Any:
        """A blocking client for your own code, created on first use."""
        return get_redis_from_settings(self.crawler.settings)

    def setup_redis(self, crawler: Crawler | None = None) -> None:
        """Read the options, once. Raises UsageError for an invalid one."""
        if hasattr(self, "feed"):
            return
        refuse_overrides(type(self), RedisMixin, SPIDER)
        crawler = crawler or getattr(self, "crawler", None)
        if crawler is None:
            raise Unusable("setup_redis needs the crawler: call it in or after from_crawler.")
        settings = crawler.settings
        batch = self.redis_batch_size = self._batch_size(settings)
        named = ("redis_encoding", self.redis_encoding)
        if not self.redis_encoding:
            named = ("REDIS_ENCODING", settings.get("REDIS_ENCODING") or "utf-8")
        self.redis_encoding = encoding(*named)
        if self.max_idle_time is None:
            self.max_idle_time = whole_setting(settings, "MAX_IDLE_TIME_BEFORE_CLOSE")
        self.max_idle_time = whole("max_idle_time", self.max_idle_time, low=0, high=10**7)
        self._schemes = settings.getlist("SKITTER_FEED_SCHEMES") or ["http", "https"]
        kinds = ("REDIS_START_URLS_AS_SET", "REDIS_START_URLS_AS_ZSET")
        is_list = not any(settings.getbool(kind) for kind in kinds)
        self.feed = FeedOptions(self._keys(settings.get("REDIS_START_URLS_KEY")), batch, is_list)
        self.logger.info(  # type: ignore[attr-defined]
            "Reading start URLs from redis key %r (batch size: %s, encoding: %s)",
            self.redis_key,
            batch,
            self.redis_encoding,
        )
        crawler.signals.connect(self.spider_idle, signals.spider_idle)

    def _batch_size(self, settings: BaseSettings) -> int:
        if self.redis_batch_size is not None:
            return whole("redis_batch_size", self.redis_batch_size, low=1, high=10**7)
        own = whole_setting(settings, "REDIS_START_URLS_BATCH_SIZE")
        return own or whole_setting(settings, "CONCURRENT_REQUESTS") or 16

    def _keys(self, default: str | None) -> tuple[str, ...]:
        named = self.redis_key if self.redis_key is not None else default or DEFAULT_KEY
        if not isinstance(named, str | list | tuple):
            raise Unusable(f"redis_key = {named!r} must be a key, or a list of keys.")
        several = [named] if isinstance(named, str) else list(named)
        where = "redis_key" if self.redis_key is not None else "REDIS_START_URLS_KEY"
        keys = tuple(
            dict.fromkeys(fill(where, str(one).strip(), name=self.name) for one in several)
        )
        if not keys or not all(keys):
            raise Unusable(f"redis_key = {self.redis_key!r} is empty: name the key of the feed.")
        self.redis_key = keys[0] if isinstance(named, str) else list(keys)
        return keys

    def spider_idle(self) -> None:
        """Close only after the whole cluster has been idle for max_idle_time."""
        scheduler = self._scheduler
        if scheduler is not None and not isinstance(scheduler, Scheduler):
            return  # a command that does not crawl
        self.schedule_next_requests()
        # By identity: a scheduler has a length, and is false when nothing is ready.
        idle_s = time.monotonic() - self._busy_at if scheduler is None else scheduler.mailbox.idle_s
        if not self.max_idle_time or idle_s < self.max_idle_time:
            raise DontCloseSpider

    def schedule_next_requests(self) -> None:
        """Called when idle; a hook to override. Skitter's scheduler reads the feed continuously
        anyway; with another one it is read now."""
        if self._scheduler is None:
            for request in self.next_requests():
                self._note_busy()
                self.crawler.engine.crawl(request)

    # --- without Skitter's scheduler, and for your own code ---------------------------------------

    @cached_property
    def _scheduler(self) -> Scheduler | LocalScheduler | None:
        try:
            return scheduler_of(self.crawler)
        except UsageError:
            self._note_busy()
            self.crawler.signals.connect(self._note_busy, signals.request_left_downloader)
            logger.warning(
                "the feed is read without Skitter's scheduler: what this process has taken from it "
                "is lost if the process dies. To share a queue that loses nothing, set "
                "SCHEDULER = 'skitter.scrapy.Scheduler'."
            )
            return None

    def _note_busy(self) -> None:
        self._busy_at = time.monotonic()

    def next_requests(self) -> Iterator[Request]:
        """Takes a batch of messages off the feed, for good."""
        room = self.feed.batch_size
        for key in self.feed.keys:
            messages = self.fetch_data(key, room) if room else []
            room -= len(messages)
            for message in messages:
                try:
                    yield from self.requests_from(message)
                except Exception as error:
                    logger.error("a message of %s was dropped: %s (%s)", key, message, error)

    def fetch_data(self, redis_key: str, batch_size: int) -> list[bytes]:
        """Takes messages from a list, a set, a sorted set or a stream."""
        kind = bytes_to_str(self.server.type(redis_key))
        if kind == "set":
            return list(self.server.spop(redis_key, batch_size))
        pop = self.pop_priority_queue if kind == "zset" else self.pop_list_queue
        return pop(redis_key, batch_size)

    def pop_list_queue(self, redis_key: str, batch_size: int) -> list[bytes]:
        """The oldest ones."""
        return self.server.lpop(redis_key, batch_size) or []

    def pop_priority_queue(self, redis_key: str, batch_size: int) -> list[bytes]:
        """Those with the highest scores."""
        return [member for member, score in self.server.zpopmax(redis_key, batch_size)]

    def count_size(self, redis_key: str) -> int:
        """How many messages a key has."""
        counts = {"set": self.server.scard, "zset": self.server.zcard}
        count = counts.get(bytes_to_str(self.server.type(redis_key)), self.server.llen)
        return int(count(redis_key))

    if not hasattr(Spider, "start_requests"):  # before Scrapy 2.16 these are the start URLs

        def start_requests(self) -> Iterator[Request]:
            return self.next_requests()

    # --- messages ---------------------------------------------------------------------------------

    def requests_from(self, message: bytes) -> Iterator[Request]:
        """Called by the scheduler. If it raises, the message becomes a dead letter."""
        found = self.make_request_from_data(message)
        if isinstance(found, Request):
            found = [found]
        elif found is not None and not isinstance(found, Iterable):
            raise UsageError(f"make_request_from_data returned {found!r}: return a Request.")
        for request in found or ():
            self._check_scheme(request.url)
            yield request

    def _check_scheme(self, url: str) -> None:
        """Being allowed to push URLs must not allow reading this machine's files."""
        scheme = url.partition(":")[0].lower()
        if scheme not in self._schemes:
            raise UsageError(
                f"{shorten(url)!r} is not fetched: a feed may only name "
                f"{' and '.join(self._schemes)} addresses. To allow {scheme!r}, add it to "
                "SKITTER_FEED_SCHEMES."
            )

    def make_request_from_data(self, data: bytes) -> Request | Iterable[Request] | None:
        """A plain URL, or JSON with url and any of method, headers, cookies, body, meta, priority,
        callback, errback, cb_kwargs, dont_filter; other keys are form data. May be overridden."""
        text = data.decode(self.redis_encoding or "utf-8").strip()
        try:
            known = json.loads(text)
        except ValueError:
            return Request(text, dont_filter=True)
        if not isinstance(known, dict):
            raise UsageError(
                "the message is JSON, but not an object: send a URL, or an object with url."
            )
        fields = request_fields(known)
        if "proxy" in fields.get("meta", {}):
            raise UsageError(
                "a feed may not choose the proxy, which could be any machine behind your firewall: "
                "set it in a downloader middleware, or override make_request_from_data."
            )
        for role in ("callback", "errback"):
            if role in fields:
                fields[role] = find_public_callback(self, fields[role])  # type: ignore[arg-type]
        return Request(**fields)


class RedisSpider(RedisMixin, Spider):
    """A spider that is fed from outside and runs until stopped."""


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """A `CrawlSpider`, with rules, that is fed from outside and runs until stopped."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _check_rules(type(self))
        super().__init__(*args, **kwargs)


def _check_rules(kind: type[CrawlSpider]) -> None:
    rules = kind.rules if isinstance(kind.rules, Iterable) else [kind.rules]
    for number, rule in enumerate(rules):
        if not isinstance(rule, Rule):
            what = type(rule).__name__.removeprefix("Lxml")
            raise UsageError(
                f"{kind.__name__}.rules[{number}] is a {what}: write Rule({what}(...)), with a "
                "comma after it."
            )
        for role in ("callback", "errback", "process_links", "process_request"):
            method = getattr(rule, role, None)
            if isinstance(method, str) and not callable(getattr(kind, method, None)):
                raise UsageError(
                    f"{kind.__name__}.rules[{number}] has {role}={method!r}, but {kind.__name__} "
                    "has no such method."
                )
    if not isinstance(kind.rules, Iterable):
        raise UsageError(
            f"{kind.__name__}.rules is a single Rule: write (Rule(...),) with a comma."
        )
