"""Commands that look at a page and do not crawl: `scrapy check`, `parse`, `fetch`, `view`, `shell`.

They get their own in-memory queue. They would do harm in the job: `check` runs no pipelines, so a
page that it took would lose its items, and requests of `shell` cannot be serialized.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_COMMANDS = frozenset({"scrapy.commands.check", "scrapy.commands.parse", "scrapy.commands.fetch"})


def is_local(crawler: Crawler) -> bool:
    """Whether this process does not crawl. `shell` creates an engine without a crawl; the others
    (Scrapy 2.13 to 2.19) replace `start` in the spider's class."""
    start = getattr(crawler.spidercls, "start", None)
    return not crawler.crawling or getattr(start, "__module__", None) in _COMMANDS


class LocalScheduler(ScrapyScheduler):
    """Scrapy's own scheduler, in memory only, with the methods that our pipelines call."""

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
