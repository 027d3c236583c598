"""Run by benchmarks: the same spider on the schedulers of Scrapy, Skitter and scrapy-redis, the
last in its own environment. Not a module of Skitter.

Takes one JSON argument {engine, socket, seed, concurrency, out}, prints one JSON object of figures.
"""

import json
import sys
import time
import warnings

from scrapy import Spider, signals
from scrapy.crawler import CrawlerProcess

TASK = json.loads(sys.argv[1])
FIGURES = {"pages": 0, "started": 0.0, "last": 0.0}
ENGINES = {
    "plain": {},
    "skitter": {
        "SCHEDULER": "skitter.scrapy.Scheduler",
        "DUPEFILTER_CLASS": "skitter.scrapy.RFPDupeFilter",
        "ITEM_PIPELINES": {"skitter.scrapy.RedisPipeline": 300},
        "SCHEDULER_PERSIST": True,
    },
    "scrapy-redis": {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300},
        "SCHEDULER_PERSIST": True,
    },
}
SETTINGS = {
    **ENGINES[TASK["engine"]],
    "REDIS_URL": "unix://" + TASK["socket"],
    "CONCURRENT_REQUESTS": TASK["concurrency"],
    "CONCURRENT_REQUESTS_PER_DOMAIN": TASK["concurrency"],
    # Helps all three: turns off what none of them needs here.
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "COOKIES_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_ENABLED": False,
    "FEEDS": {TASK["out"]: {"format": "jsonlines"}} if "out" in TASK else {},
}


class Titles(Spider):
    """The title of every page, and all its links."""

    name = "titles"
    start_urls = (TASK["seed"],)

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        crawler.signals.connect(spider.stored, signals.item_scraped)
        return spider

    def opened(self):
        FIGURES["started"] = time.perf_counter()

    def stored(self):
        FIGURES["pages"] += 1
        FIGURES["last"] = time.perf_counter()

    def parse(self, response):
        yield {"title": response.css("title::text").get()}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


def main():
    warnings.simplefilter("ignore")
    process = CrawlerProcess(SETTINGS)
    process.crawl(Titles)
    process.start()
    seconds = FIGURES["last"] - FIGURES["started"]
    cpu = time.process_time()
    json.dump({"pages": FIGURES["pages"], "seconds": seconds, "cpu_s": cpu}, sys.stdout)


main()
