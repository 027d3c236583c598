"""Books by their address, fed from outside: redis-cli lpush fed:start_urls http://..."""

from bookshop.items import read_book
from skitter.scrapy import RedisSpider


class FedSpider(RedisSpider):
    name = "fed"

    def parse(self, response):
        yield read_book(response)
