"""A Scrapy project whose nodes share one frontier. What is not Skitter's is Scrapy's own."""

import os

BOT_NAME = "bookshop"
SPIDER_MODULES = ["bookshop.spiders"]

# --- Skitter: three dotted paths, as with scrapy-redis -------------------------------------------
SCHEDULER = "skitter.scrapy.Scheduler"
DUPEFILTER_CLASS = "skitter.scrapy.RFPDupeFilter"
ITEM_PIPELINES = {"skitter.scrapy.RedisPipeline": 300}

# Where the server is; on one machine Skitter can bring its own: SKITTER_DIR = ".skitter"
REDIS_URL = os.environ.get("SKITTER_REDIS_URL", "redis://localhost:6379/0")
# Keep the job when the crawl is over: a second run goes on where the first one ended.
SCHEDULER_PERSIST = True
# Optional: tracking parameters and the spelling of an address make no new page.
REQUEST_FINGERPRINTER_CLASS = "skitter.scrapy.RequestFingerprinter"

# Nodes do not follow links or messages to private addresses, except of these hosts.
SKITTER_ALLOW_HOSTS = ["localhost"]

# --- manners: limits over all nodes together ------------------------------------------------------
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0  # the demo shop is ours; a stranger's site deserves a second
CONCURRENT_REQUESTS_PER_DOMAIN = 16

TELNETCONSOLE_ENABLED = False
