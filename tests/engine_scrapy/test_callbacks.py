"""Which methods of a spider a name from outside may reach."""

from __future__ import annotations

import pytest
from scrapy import Spider
from scrapy.spiders import CrawlSpider, SitemapSpider

from skitter.errors import UsageError
from skitter.scrapy import RedisCrawlSpider, RedisSpider
from skitter.scrapy.requests.codec import find_callback, find_public_callback


class Mixin:
    def parse_mixed(self, response):
        """Of a class of the user's too."""


class Fed(Mixin, RedisSpider):
    name = "fed"
    not_a_method = print

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def parse(self, response):
        """Public."""

    def _parse_hidden(self, response):
        """For requests of the spider's own."""

    def closed(self, reason):
        """Scrapy's business."""

    def make_request_from_data(self, data):
        """The scheduler's."""

    @property
    def parse_property(self):
        raise AssertionError("it is not even looked at")


class Plain(Spider):
    name = "plain"


class Ruled(CrawlSpider):
    name = "ruled"


class Mapped(SitemapSpider):
    name = "mapped"


@pytest.mark.parametrize("name", ["parse", "parse_mixed"])
def test_public_methods_of_the_users_classes_may_be_fed(name):
    spider = Fed()

    assert find_public_callback(spider, name) == getattr(spider, name)


@pytest.mark.parametrize(
    "name",
    ["__init__", "__class__", "_parse_hidden", "closed", "make_request_from_data", "from_crawler",
     "setup_redis", "spider_idle", "name", "not_a_method", "parse_property", "x", "", "_parse"],
)  # fmt: skip
def test_nothing_else_may_be_fed(name):
    with pytest.raises(UsageError, match="has no method"):
        find_public_callback(Fed(), name)


def test_what_the_users_class_does_not_define_may_not_be_fed():
    with pytest.raises(UsageError, match="has no method 'parse'"):
        find_public_callback(Plain(), "parse")


@pytest.mark.parametrize(
    ("spider", "name"),
    [(Fed(), "_parse_hidden"), (Fed(), "parse"), (Plain(), "_parse"), (Ruled(), "_callback"),
     (Ruled(), "_errback"), (RedisCrawlSpider(name="x"), "_callback"),
     (Mapped(), "_parse_sitemap")],
)  # fmt: skip
def test_a_stored_request_may_name_hidden_methods_and_scrapys_own_callbacks(spider, name):
    assert find_callback(spider, name) == getattr(spider, name)


@pytest.mark.parametrize("name", ["__init__", "from_crawler", "closed", "_set_crawler", "close"])
def test_a_stored_request_may_not_name_what_makes_or_ends_a_spider(name):
    assert find_callback(Fed(), name) is None
