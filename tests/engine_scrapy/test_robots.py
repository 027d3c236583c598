"""robots.txt holds for all requests that a node begins with, not for the first alone."""

from __future__ import annotations

import pytest

from bookshop import trespasses
from skitter.model import Request
from skitter.scrapy.dupefilter import identities

pytestmark = pytest.mark.timeout(300)


def test_a_node_that_joins_with_many_requests_at_once_does_not_trespass(open_shop, make_cluster):
    shop = open_shop(books=50)
    cluster = make_cluster(shop)
    page = shop.url.rstrip("/")
    # A first run, so that the job is there; then many requests, which a node gets in one lease.
    cluster.start(CLOSESPIDER_ITEMCOUNT=1).finish()

    async def queue(frontier):
        urls = [f"{page}/private/{n}" for n in range(10)]
        await frontier.add(
            Request(url=url, identity=identities(url)[1], slot="localhost", priority=9)
            for url in urls
        )

    cluster.ask(queue)

    assert cluster.start().finish() == "finished"
    assert trespasses(shop.log()) == []
