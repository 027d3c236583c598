"""What Scrapy drops: whether anybody asked to hear of it, and what is counted."""

from __future__ import annotations

import re

import pytest
from scrapy import Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from skitter.explain import explain_url
from skitter.observe.report import kept_out
from skitter.scrapy.inside.refused import has_errback


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


@pytest.mark.timeout(300)
def test_what_middlewares_keep_out_is_counted_by_reason_and_explained(open_shop, make_cluster):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)

    node = cluster.run_odd("doors", SCHEDULER_PERSIST=True)

    assert node.finish() == "finished"
    stats = cluster.stats()
    kinds = {"scope": 2, "robots": 2, "depth": 2, "length": 1, "middleware": 1}
    assert stats.kept_out == kinds
    assert "2 by robots.txt" in kept_out(stats.kept_out)
    page = shop.url.rstrip("/")

    def why(url):
        said = cluster.ask(lambda frontier: explain_url(frontier, url))
        return said.state, said.refused_by, said.because

    state, by, because = why(f"{page}/private/1")
    assert (state, by, because[:2]) == (
        "refused", "robots", ["robots.txt disallows it for scrapy", f"it was found on {shop.url}"],
    )  # fmt: skip
    assert re.fullmatch(r"robots.txt: disallowed by line \d+, `Disallow: /private.*`.", because[2])
    _, by, because = why("http://elsewhere.test/2")
    assert (by, because[0]) == (
        "scope", "it is out of scope: elsewhere.test is not in allowed_domains",
    )  # fmt: skip
    assert why(f"{page}/?deep")[1:] == (
        "depth", ["it is at depth 2; DEPTH_LIMIT is 1", f"it was found on {page}/about"],
    )  # fmt: skip
    assert why(f"{page}/?picky")[2][0] == "Picky ignored it: not this one"
    assert why(f"{page}/?{'x' * 100}")[2][0].endswith("characters; URLLENGTH_LIMIT is 100")
    assert why(f"{page}/about")[0] == "done"
    assert why(f"{page}/?both")[:2] == ("done", None)  # too deep there, and not here
    cluster.assert_accounted_for()
