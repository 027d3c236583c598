"""STATS_CLASS = "skitter.scrapy.RedisStatsCollector": the stats of all nodes in one hash.

They are counted in memory and sent periodically as differences: no round trip per increment.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.statscollectors import MemoryStatsCollector

from skitter.errors import SkitterError
from skitter.frontier.blocking import RedisProblem
from skitter.scrapy.connection import get_redis_from_settings
from skitter.scrapy.parsing import fill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

DEFAULT_KEY = "%(spider)s:stats"


class RedisStatsCollector(MemoryStatsCollector):
    """Counts for this node; the hash has the sum over the cluster."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.key: str = crawler.settings.get("STATS_KEY") or DEFAULT_KEY
        fill("STATS_KEY", self.key, spider=str(getattr(crawler.spidercls, "name", "")))
        self._sent: dict[str, Any] = {}
        self._spider = ""  # nothing is sent until a node starts

    def begin(self, spider: str) -> Callable[[], Iterator[tuple[Any, ...]]]:
        """A node has started: returns a function that yields the commands to send."""
        self._spider = spider
        return partial(self.commands, spider)

    def _persist_stats(self, stats: Any, *spider: Any) -> None:  # Scrapy 2.13 passes the spider
        """Send the last stats, such as finish_reason, which are set after the node has stopped."""
        super()._persist_stats(stats, *spider)
        if not self._spider:
            return
        try:
            client = get_redis_from_settings(self._crawler.settings)
            for command in self.commands(self._spider):
                client.execute_command(*command)
            client.close()
        except (SkitterError, RedisProblem, OSError) as error:
            logger.warning("the last statistics were not sent: %s", error)

    def commands(self, spider: str) -> Iterator[tuple[Any, ...]]:
        """Commands that update the hash. Asking for the next one confirms the last. Integers are
        added, other values are set."""
        key = self.key % {"spider": spider}
        for name, value in dict(self._stats).items():
            before = self._sent.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                if by := value - (before if isinstance(before, int) else 0):
                    yield "HINCRBY", key, name, by
            elif value != before:
                yield "HSET", key, name, str(value)
            self._sent[name] = value
