"""Default values under the names of `scrapy_redis.defaults`, for code that reads them."""

from __future__ import annotations

from typing import Any

from skitter.frontier.transport.blocking import blocking_client

DUPEFILTER_KEY = "dupefilter:%(timestamp)s"
PIPELINE_KEY = "%(spider)s:items"
STATS_KEY = "%(spider)s:stats"
REDIS_ENCODING = "utf-8"
REDIS_PARAMS = {
    "socket_timeout": 30,
    "socket_connect_timeout": 30,
    "retry_on_timeout": True,
    "encoding": REDIS_ENCODING,
}
REDIS_CONCURRENT_REQUESTS = 16
SCHEDULER_QUEUE_KEY = "%(spider)s:requests"
SCHEDULER_QUEUE_CLASS = "skitter.scrapy.PriorityQueue"
SCHEDULER_DUPEFILTER_KEY = "%(spider)s:dupefilter"
SCHEDULER_DUPEFILTER_CLASS = "skitter.scrapy.RFPDupeFilter"
SCHEDULER_PERSIST = False
START_URLS_KEY = "%(name)s:start_urls"
START_URLS_AS_SET = START_URLS_AS_ZSET = False
MAX_IDLE_TIME = 0


def __getattr__(name: str) -> Any:
    """REDIS_CLS: looked up when it is asked for, as redis-py takes long to import."""
    if name == "REDIS_CLS":
        return type(blocking_client())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
