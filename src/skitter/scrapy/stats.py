"""STATS_CLASS = "skitter.scrapy.RedisStatsCollector": the numbers of all nodes in one hash.

They are counted in memory and sent with the heartbeat, as differences: no round trip per number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.statscollectors import MemoryStatsCollector

from skitter.scrapy.reading import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

DEFAULT_KEY = "%(spider)s:stats"


class RedisStatsCollector(MemoryStatsCollector):
    """Counts of this node; the hash has the sum over the cluster."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.key: str = crawler.settings.get("STATS_KEY") or DEFAULT_KEY
        fill("STATS_KEY", self.key, spider=str(getattr(crawler.spidercls, "name", "")))
        self._sent: dict[str, Any] = {}

    def commands(self, spider: str) -> Iterator[tuple[Any, ...]]:
        """What brings the hash up to date, one at a time: whoever asks for the next one has had
        the answer to the last. Whole numbers are added, the rest is written."""
        key = self.key % {"spider": spider}
        for name, value in dict(self._stats).items():
            before = self._sent.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                if by := value - (before if isinstance(before, int) else 0):
                    yield "HINCRBY", key, name, by
            elif value != before:
                yield "HSET", key, name, str(value)
            self._sent[name] = value
