"""A mistake in the settings: one sentence in the log, a crawl that does not begin, and exit code 1.

Scrapy logs every exception of a component with its stack trace, except one: from 2.18 on, a crawl
ends quietly if CloseSpider is raised when its spider has opened. Earlier releases get the
exception itself, and the exit code.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider

from skitter.errors import SkitterError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

logger = logging.getLogger("skitter.scrapy")

#: Why the spider was closed, in Scrapy's log and its stats.
REASON = "skitter_refused"
_MARK = "_skitter_refused"  # an attribute of the spider
CLOSES_QUIETLY = scrapy.version_info >= (2, 18)


def refuse(crawler: Crawler, error: BaseException, spider: Spider | None = None) -> None:
    """Have the crawl end before its first request. Raises the error if Scrapy cannot do that, or
    if it is not one that explains itself. `spider`: if the crawler has none yet."""
    if not isinstance(error, SkitterError):
        raise error
    if not CLOSES_QUIETLY:
        fail_when_closed(crawler)
        raise error
    logger.error("%s", error)
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
