"""Item pipelines: to a list that others read, or to the job's own stream for `skitter load`.

Either way items are stored in one step with the completion of their page: if a node dies and the
page is crawled again, its items are still stored once.
"""

from __future__ import annotations

import contextvars
import logging
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from itemadapter import ItemAdapter
from scrapy.utils.misc import load_object
from scrapy.utils.serialize import ScrapyJSONEncoder

from skitter.errors import TooBig, UsageError
from skitter.frontier.completions import MAX_ITEM_BYTES
from skitter.frontier.transport.messages import NOT_PLAIN, encode
from skitter.scrapy.compatibility import PIPELINE, refuse_overrides
from skitter.scrapy.connection import get_redis_from_settings
from skitter.scrapy.inside.refused import refuse
from skitter.scrapy.internals import in_thread
from skitter.scrapy.scheduler import scheduler_of
from skitter.scrapy.settings import fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from skitter.scrapy.inside.refused import LocalScheduler
    from skitter.scrapy.scheduler import Scheduler

logger = logging.getLogger(__name__)

DEFAULT_KEY = "%(spider)s:items"


class _Pipeline:
    """A pipeline that hands items to the scheduler."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    @cached_property
    def server(self) -> Any:
        """A blocking client for your own code, created on first use."""
        return get_redis_from_settings(self.crawler.settings)

    def open_spider(self, spider: Spider | None = None) -> None:
        try:
            self.open()
        except UsageError as error:
            refuse(self.crawler, error)

    def open(self) -> None:
        """Raises UsageError for a setting that cannot be honoured."""
        self.scheduler: Scheduler | LocalScheduler = scheduler_of(self.crawler)


class RedisPipeline(_Pipeline):
    """Appends items to a list, as scrapy-redis does."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = crawler.settings
        self.key: str = settings.get("REDIS_ITEMS_KEY") or DEFAULT_KEY
        try:
            self.serialize = _serializer(settings.get("REDIS_ITEMS_SERIALIZER"))
        except UsageError as error:
            refuse(crawler, error)

    def open(self) -> None:
        super().open()
        refuse_overrides(type(self), RedisPipeline, PIPELINE)
        if type(self).item_key is RedisPipeline.item_key:
            fill("REDIS_ITEMS_KEY", self.key, spider=self.scheduler.spider.name)

    def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        if type(self)._process_item is RedisPipeline._process_item:
            return self._process_item(item, self.crawler.spider)
        return self._process_in_thread(item)

    async def _process_in_thread(self, item: Any) -> Any:
        """An override may block on the server, so run it in a thread, as scrapy-redis does."""
        work = partial(self._process_item, item, self.crawler.spider)
        return await in_thread(partial(contextvars.copy_context().run, work))

    def _process_item(self, item: Any, spider: Any) -> Any:
        """Override it to store items another way, with `self.server`."""
        data = self.serialize(item)
        data = data.encode() if isinstance(data, str) else bytes(data)
        _check_size(data)
        self.scheduler.push_item(self.item_key(item, spider), data)
        return item

    def item_key(self, item: Any, spider: Any) -> str:
        """Override it to sort items into several lists."""
        return self.key % {"spider": spider.name}


class ItemPipeline(_Pipeline):
    """Adds items to the job's stream: `skitter load` stores each in a database once."""

    def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        plain = ItemAdapter(item).asdict()
        try:
            data = encode(plain)
            _check_size(data)
        except NOT_PLAIN as error:
            raise UsageError(f"the item cannot be stored: {error}. Use plain values.") from error
        if not self.scheduler.put_item(plain, len(data)):
            logger.warning("an item without a page is not stored: yield it from a callback.")
        return item


def _serializer(named: Any) -> Callable[[Any], str | bytes]:
    if not named:
        return ScrapyJSONEncoder().encode
    try:
        found = load_object(named)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise UsageError(f"REDIS_ITEMS_SERIALIZER = {named!r} cannot be loaded: {error}.") from None
    if not callable(found):
        raise UsageError(f"REDIS_ITEMS_SERIALIZER = {named!r} is not a function: name one.")
    return found  # type: ignore[no-any-return]


def _check_size(data: bytes) -> None:
    if len(data) > MAX_ITEM_BYTES:
        raise TooBig("the item", size_bytes=len(data), limit_bytes=MAX_ITEM_BYTES)
