"""The stats of all nodes in one hash: STATS_CLASS = "skitter.scrapy.RedisStatsCollector".

They are counted in memory and sent periodically as differences, in numbered batches: the server
remembers the last number of each node, so a batch whose answer was lost counts once (ADR 3).
"""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.statscollectors import MemoryStatsCollector

from skitter.errors import SkitterError
from skitter.frontier.transport import redis_errors
from skitter.frontier.transport.endpoints import is_cluster_url
from skitter.scrapy.connection import get_redis_from_settings, server_settings
from skitter.scrapy.settings import fill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

DEFAULT_KEY = "%(spider)s:stats"
#: Longer than any node repeats a batch.
REMEMBER_S = 86_400
#: KEYS: the hash, and the last number of each node. ARGV: node, number, seconds to remember it,
#: then command, field and value of each change. The first command fails before anything is written
#: if the key is no hash.
ADD_ONCE = """
redis.call('HLEN', KEYS[1])
if tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0) >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[3])
local failed
for i = 4, #ARGV, 3 do
  local reply = redis.pcall(ARGV[i], KEYS[1], ARGV[i + 1], ARGV[i + 2])
  if type(reply) == 'table' and reply.err then failed = failed or reply end
end
return failed or 1
"""


class RedisStatsCollector(MemoryStatsCollector):
    """Counts for this node; the hash has the sum over the cluster."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._crawler = crawler  # Scrapy 2.13 does not keep it
        self.key: str = crawler.settings.get("STATS_KEY") or DEFAULT_KEY
        self._name = uuid.uuid4().hex
        self._number = 0  # of the last batch that was made
        self._batch: dict[str, Any] = {}  # sent, and not yet known to have arrived
        self._sent: dict[str, Any] = {}
        self._spider = ""  # nothing is sent until a node starts

    def begin(self, spider: str) -> Callable[[], Iterator[tuple[Any, ...]]]:
        """A node has started: returns a function that yields the commands to send. Raises
        UsageError for a STATS_KEY that cannot be filled in."""
        fill("STATS_KEY", self.key, spider=spider)
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
        except (SkitterError, redis_errors.RedisError, OSError) as error:
            logger.warning("the last statistics were not sent: %s", error)

    def commands(self, spider: str) -> Iterator[tuple[Any, ...]]:
        """Commands that update the hash. Asking for the next one confirms the last; until then it
        is the same, whatever has been counted since."""
        key = self.key % {"spider": spider}
        while self._batch or self._next_batch():
            changes = [word for name in self._batch for word in self._change(name)]
            names = (key, self._numbers_key(key))
            yield ("EVAL", ADD_ONCE, 2, *names, self._name, self._number, REMEMBER_S, *changes)
            self._sent |= self._batch
            self._batch = {}

    def _next_batch(self) -> bool:
        self._batch = {
            name: value
            for name, value in dict(self._stats).items()
            if name not in self._sent or value != self._sent[name]
        }
        self._number += bool(self._batch)
        return bool(self._batch)

    def _change(self, name: str) -> tuple[str, str, Any]:
        """Integers are added, other values are set."""
        value, before = self._batch[name], self._sent.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return "HINCRBY", name, value - (before if isinstance(before, int) else 0)
        return "HSET", name, str(value)

    def _numbers_key(self, key: str) -> str:
        """In the same slot of a cluster as the hash."""
        where = server_settings(self._crawler.settings).redis_url or ""
        is_tagged = "{" in key or not is_cluster_url(where)
        return f"{key}:sent" if is_tagged else f"{{{key}}}:sent"
