"""Every book of the shop. An ordinary spider: nothing in it knows that there are other nodes."""

import os

from scrapy import Spider

from bookshop.items import read_book


class BooksSpider(Spider):
    name = "books"
    allowed_domains = ("localhost",)
    start_urls = (os.environ.get("SKITTER_DEMO_URL", "http://localhost:8000/"),)

    def parse(self, response):
        yield from response.follow_all(css="article.book h3 a", callback=self.parse_book)
        yield from response.follow_all(css="nav a:not([href^=mailto]), a.author")

    def parse_book(self, response):
        yield read_book(response)
        yield from response.follow_all(css=".related h3 a", callback=self.parse_book)
        yield from response.follow_all(css="a.author")
