"""All suites, by name."""

from benchmarks.crawl import CRAWL
from benchmarks.frontier import FRONTIER
from benchmarks.http import HTTP
from benchmarks.million import MILLION
from benchmarks.scrapy_node import SCRAPY

SUITES = {
    "frontier": FRONTIER,
    "crawl": CRAWL,
    "scrapy": SCRAPY,
    "http": HTTP,
    "million": MILLION,
}
