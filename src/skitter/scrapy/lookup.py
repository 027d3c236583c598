"""Finds the scheduler, for pipelines and spiders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError
from skitter.scrapy.local import LocalScheduler
from skitter.scrapy.scheduler import Scheduler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


def scheduler_of(crawler: Crawler) -> Scheduler | LocalScheduler:
    """The scheduler of an open spider. Raises UsageError if it is not ours."""
    engine: Any = crawler.engine
    found = engine._slot.scheduler
    # By type: Scrapy's isinstance is duck-typed, and true of every scheduler.
    if not isinstance(found, Scheduler) and type(found) is not LocalScheduler:
        raise UsageError(
            "this part of Skitter works with Skitter's scheduler: "
            "set SCHEDULER = 'skitter.scrapy.Scheduler'."
        )
    return found
