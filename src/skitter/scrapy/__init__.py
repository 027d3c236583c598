"""Scrapy on the frontier: existing spiders run distributed and lose nothing.

SCHEDULER = "skitter.scrapy.Scheduler"
DUPEFILTER_CLASS = "skitter.scrapy.RFPDupeFilter"
ITEM_PIPELINES = {"skitter.scrapy.RedisPipeline": 300}

scheduler, dupefilter   what Scrapy calls; they never block
spiders, pipelines      RedisSpider, RedisCrawlSpider, RedisPipeline, ItemPipeline
fingerprinter           which requests are the same page: our rules, Scrapy's and scrapy-redis's
mailbox                 what the engine's thread and the node's thread exchange
node                    the node's thread, with
prefetch, delivery      what it leases ahead, and what it sends
feed, housekeeping      messages that others push; background chores
job                     opened by the first node, removed by the last
internals, slots        Scrapy's private parts that we rely on
refusals                responses that Scrapy drops silently
guard                   blocks private addresses
cookies                 jars that all nodes share
codec, values           requests as plain data, no pickle
options, address        settings of a node
compatibility           settings and methods of scrapy-redis: honoured, or refused with a reason
parsing                 settings as numbers, keys and encodings
callbacks               methods that a message may name
message                 the fields of a feed message
connection              Redis clients for user code
defaults, utils         names of scrapy-redis for user code
local                   commands that look at a page without crawling
rejected                items that a pipeline failed on
adopt, pickled          takes over a scrapy-redis queue
"""

from importlib.util import find_spec

from skitter.errors import UsageError

if find_spec("scrapy") is None:
    from skitter.extras import install

    raise UsageError(f"skitter.scrapy needs Scrapy: {install('scrapy')}")

from skitter.scrapy.connection import get_redis, get_redis_from_settings
from skitter.scrapy.dupefilter import RFPDupeFilter
from skitter.scrapy.fingerprinter import RequestFingerprinter
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
