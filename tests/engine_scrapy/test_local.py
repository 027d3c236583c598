"""`scrapy check`, `parse`, `fetch` and `shell` look at pages without touching the job."""

from __future__ import annotations

import json

import pytest

from skitter.errors import JobMissing

pytestmark = pytest.mark.timeout(300)

SPIDERS = '''
import os

from scrapy import Spider

from skitter.scrapy import RedisSpider

SHOP = os.environ["SKITTER_DEMO_URL"]


class Plain(Spider):
    name = "plain"

    def parse(self, response):
        yield {"upc": response.css("title::text").get()}

    parse.__doc__ = f"""@url {SHOP}
    @returns items 1 1
    """


class Fed(RedisSpider):
    name = "fed"
    parse = Plain.parse
'''


@pytest.mark.parametrize(
    ("command", "spider"),
    [("check", "plain"), ("parse", "fed"), ("fetch", "fed"), ("shell", "fed")],
)
def test_a_command_that_does_not_crawl_leaves_the_job_and_the_feed_alone(
    open_shop, make_cluster, monkeypatch, command, spider
):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    (cluster.folder / "lone_spiders.py").write_text(SPIDERS)
    monkeypatch.setenv("PYTHONPATH", str(cluster.folder))
    cluster.push(shop.url)
    words = {
        "check": ("check", spider),
        "parse": ("parse", "--spider", spider, "--pipelines", shop.url),
        "fetch": ("fetch", "--spider", spider, shop.url),
        "shell": ("shell", "--spider", spider, "-c", "response.status", shop.url),
    }[command]

    node = cluster.start(
        *words,
        SPIDER_MODULES="lone_spiders",
        STATS_CLASS="skitter.scrapy.RedisStatsCollector",
        STATS_KEY=f"{cluster.job}:stats",
        ITEM_PIPELINES=json.dumps({"skitter.scrapy.RedisPipeline": 300}),
    )

    assert node.wait() == 0, node.log
    shown = {"check": "Ran 1 contract in", "parse": "'upc':", "fetch": "</html>", "shell": "200"}
    assert shown[command] in node.log
    assert shop.pages() == ["/"]
    with pytest.raises(JobMissing):
        cluster.stats()
    assert cluster.command("LLEN", f"{cluster.job}:start_urls") == 1
    assert cluster.command("EXISTS", f"{cluster.job}:items", f"{cluster.job}:stats") == 0
