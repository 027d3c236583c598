"""Scrapy on the frontier: existing spiders run distributed and lose nothing.

SCHEDULER = "skitter.scrapy.Scheduler"
DUPEFILTER_CLASS = "skitter.scrapy.RFPDupeFilter"
ITEM_PIPELINES = {"skitter.scrapy.RedisPipeline": 300}

compatibility  What Skitter does with each setting and method of scrapy-redis
connection     Where the server is, and Redis clients for pipelines and scripts, as in scrapy-redis
defaults       Default values under the names of `scrapy_redis.defaults`, for code that reads them
dupefilter     Which requests are the same: the dupefilter, and our fingerprinter
inside/        Inside Scrapy: its downloads, where they may go, and what is refused
internals      The only module that touches Scrapy's private names
media          Scrapy's FilesPipeline and ImagesPipeline with Skitter's folder of files
node/          A node: the frontier's side of a Scrapy process, on its own thread
pipelines      Item pipelines: to a list that others read
project        A Scrapy project in the list of an agent: what it offers, and its runs
queue          Names for SCHEDULER_QUEUE_CLASS: the order of requests within a download slot
requests/      Scrapy's requests as plain data, without pickle
scheduler      The scheduler: Scrapy's side of a node
settings       A node's options, read once from Scrapy's settings
spiders        Spiders fed from outside: `redis-cli lpush books:start_urls https://...`
stats          The stats of all nodes in one hash
utils          Small functions under the names of `scrapy_redis.utils`, for code that uses them
way_back       A dupefilter for those who go back: scrapy-redis
"""

from importlib.util import find_spec

from skitter.errors import UsageError

if find_spec("scrapy") is None:
    from skitter.extras import install

    raise UsageError(f"skitter.scrapy needs Scrapy: {install('scrapy')}")

from skitter.scrapy.connection import get_redis, get_redis_from_settings
from skitter.scrapy.dupefilter import RequestFingerprinter, RFPDupeFilter
from skitter.scrapy.pipelines import ItemPipeline, RedisPipeline
from skitter.scrapy.queue import FifoQueue, LifoQueue, PriorityQueue
from skitter.scrapy.scheduler import Scheduler
from skitter.scrapy.spiders import RedisCrawlSpider, RedisMixin, RedisSpider
from skitter.scrapy.stats import RedisStatsCollector

__all__ = [
    "FifoQueue",
    "ItemPipeline",
    "LifoQueue",
    "PriorityQueue",
    "RFPDupeFilter",
    "RedisCrawlSpider",
    "RedisMixin",
    "RedisPipeline",
    "RedisSpider",
    "RedisStatsCollector",
    "RequestFingerprinter",
    "Scheduler",
    "get_redis",
    "get_redis_from_settings",
]
