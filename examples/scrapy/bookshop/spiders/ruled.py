"""Every book again, by rules; where to begin is fed from outside."""

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule

from bookshop.items import read_book
from skitter.scrapy import RedisCrawlSpider


class RuledSpider(RedisCrawlSpider):
    name = "ruled"
    allowed_domains = ("localhost",)
    rules = (
        Rule(LinkExtractor(restrict_css="article.book h3"), callback="parse_book", follow=True),
        Rule(LinkExtractor(restrict_css="nav, .related, .product"), follow=True),
    )

    def parse_book(self, response):
        if response.css(".upc"):
            yield read_book(response)
