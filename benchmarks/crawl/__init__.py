"""Measure a whole crawl: fetch, parse, follow, store.

`run_crawl` starts a private embedded server and a private nginx, and takes five measurements:

    speed     pages a second of one worker, beside a bare loop, scrapy-redis, Crawlee and Celery
    celery    pages a second of the Celery engine, beside one task per URL
    scale     four workers beside one, when every answer is 200 ms late
    memory    the size of a worker after 100,000 pages
    profile   where the time of a page goes, layer by layer

All that competes is a process of its own; sites and servers are too.

    pages, site, synthetic        what is crawled
    worker, bare, engine, peers   who crawls: `python -m` modules, scripts for other environments
    processes, field              how they are started, told and ended
    sizes, benchmark              how much, in which order
"""

from benchmarks.crawl.benchmark import MEASUREMENTS, run_crawl
from benchmarks.crawl.sizes import FULL, QUICK, Sizes

__all__ = ["FULL", "MEASUREMENTS", "QUICK", "Sizes", "run_crawl"]
