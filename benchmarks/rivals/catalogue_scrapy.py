"""Run by benchmarks: the spider of the catalogue, on plain Scrapy. Not a module of Skitter.

Takes one JSON argument {seed, concurrency, out}, prints one JSON object.
"""

import json
import sys
import warnings
from dataclasses import dataclass

from scrapy import Spider
from scrapy.crawler import CrawlerProcess

TASK = json.loads(sys.argv[1])
SETTINGS = {
    "CONCURRENT_REQUESTS": TASK["concurrency"],
    "CONCURRENT_REQUESTS_PER_DOMAIN": TASK["concurrency"],
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "COOKIES_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_ENABLED": False,
    "FEEDS": {TASK["out"]: {"format": "csv"}},
}


@dataclass
class Product:
    name: str
    sku: str
    price: float
    stock: int
    brand: str
    rating: float
    weight: str
    colour: str
    breadcrumb: str
    description: str


class Catalogue(Spider):
    name = "catalogue"
    start_urls = (TASK["seed"],)

    def parse(self, response):
        yield from response.follow_all(response.css("h3 a"), self.parse_product)
        yield from response.follow_all(response.css("a.next"), self.parse)

    def parse_product(self, response):
        cells = {row.css("th::text").get(): row.css("td::text").get() for row in response.css("tr")}
        yield Product(
            name=response.css("h1::text").get(),
            sku=cells["SKU"],
            price=float(response.css(".price::text").get().strip("$")),
            stock=int(cells["Stock"]),
            brand=cells["Brand"],
            rating=float(response.css(".rating::attr(data-stars)").get()),
            weight=cells["Weight"],
            colour=cells["Colour"],
            breadcrumb=" > ".join(response.css("nav a::text").getall()),
            description=response.css(".description::text").get(),
        )


def main():
    warnings.simplefilter("ignore")
    process = CrawlerProcess(SETTINGS)
    process.crawl(Catalogue)
    process.start()
    sys.stdout.write("{}\n")


main()
