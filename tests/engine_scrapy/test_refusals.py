"""Whether anybody asked to hear of a failure."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from skitter.scrapy.refusals import has_errback


class Books(CrawlSpider):
    name = "books"
    rules = (Rule(LinkExtractor()), Rule(LinkExtractor(), errback="on_error"))

    def on_error(self, failure):
        """Somebody did."""


SPIDER = Books()


@pytest.mark.parametrize(
    ("request_", "asked"),
    [
        (Request("http://a.test/"), False),
        (Request("http://a.test/", errback=SPIDER.on_error), True),
        (Request("http://a.test/", errback=SPIDER._errback, meta={"rule": 0}), False),
        (Request("http://a.test/", errback=SPIDER._errback, meta={"rule": 1}), True),
        (Request("http://a.test/", errback=SPIDER._errback, meta={"rule": 9}), True),
    ],
)
def test_the_errback_of_a_rule_counts_and_not_that_of_all_rules(request_, asked):
    assert has_errback(request_, SPIDER) is asked
