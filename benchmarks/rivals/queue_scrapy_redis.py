"""Run by benchmarks in scrapy-redis's own environment. Not a module of Skitter.

Takes one JSON argument {verb, socket, urls: path}, prints one JSON object of figures.
"""

import json
import logging
import sys
import time
import warnings
from pathlib import Path

import redis
from scrapy import Request, Spider
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.scheduler import Scheduler

PIPELINE = 500


class Shop(Spider):
    name = "shop"


def open_scheduler(server):
    """Like Scrapy does, without a crawler: its own Scheduler, PriorityQueue and RFPDupeFilter."""
    scheduler = Scheduler(server, dupefilter=RFPDupeFilter(server, "shop:dupefilter"))
    scheduler.open(Shop())
    return scheduler


def speed(server, urls):
    """enqueue_request (request_seen, push) for all, then next_request (pop) until it is empty."""
    scheduler = open_scheduler(server)
    started, before = time.perf_counter(), time.process_time()
    for url in urls:
        scheduler.enqueue_request(Request(url))
    queued = time.perf_counter()
    popped = 0
    while scheduler.next_request() is not None:
        popped += 1
    ended = time.perf_counter()
    return {
        "popped": popped,
        "seconds": ended - started,
        "add_seconds": queued - started,
        "cpu_seconds": time.process_time() - before,
    }


def seen(server, urls):
    """Only the dupefilter's set, its fingerprints sent in pipelines to save time."""
    scheduler = open_scheduler(server)
    for first in range(0, len(urls), PIPELINE):
        part = urls[first : first + PIPELINE]
        prints = [scheduler.df.request_fingerprint(Request(url)) for url in part]
        server.sadd(scheduler.df.key, *prints)
    return {"members": server.scard(scheduler.df.key)}


def pending(server, urls):
    """Only the queue, its entries sent in pipelines to save time."""
    queue = open_scheduler(server).queue
    for first in range(0, len(urls), PIPELINE):
        pipe = server.pipeline(transaction=False)
        for url in urls[first : first + PIPELINE]:
            pipe.execute_command("ZADD", queue.key, 0, queue._encode_request(Request(url)))
        pipe.execute()
    return {"members": len(queue)}


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    task = json.loads(sys.argv[1])
    urls = Path(task["urls"]).read_text().splitlines()
    server = redis.Redis(unix_socket_path=task["socket"])
    figures = {"speed": speed, "seen": seen, "pending": pending}[task["verb"]](server, urls)
    json.dump(figures, sys.stdout)


main()
