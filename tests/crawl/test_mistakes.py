"""A spider with a mistake of each kind: the run names the lines, and stops by itself."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.timeout(120)
SPIDER = """
import time
from dataclasses import dataclass
from skitter import Politeness, Spider

@dataclass
class Book:
    price: float

spider = Spider("shop", ["{url}"], item=Book, politeness=Politeness(delay_s=0.3))

@spider.page
async def listing(page):
    yield {{"price": "a lot"}}
    time.sleep(3)
    for request in page.follow_all("a", book):
        yield request

@spider.page
def book(page):
    yield {{"price": page.meta["price"]}}
"""


def test_a_run_names_the_lines_at_fault_and_stops_at_max_errors(open_shop, make_machine):
    shop = open_shop()
    machine = make_machine(shop)
    (machine.folder / "shop.py").write_text(SPIDER.format(url=shop.url))

    ran = machine.call("run", "shop.py", "-p", "1", "--max-errors", "3")

    said = " ".join(ran.stderr.split())
    assert said.count("blocked: shop.py:15: time.sleep(3) held up every page of its worker") == 1
    rejected = (
        'price: Expected `float`, got `str`: \'a lot\' (shop.py:14: yield {"price": "a lot"})'
    )
    assert said.count(f"rejected: {rejected}, from {shop.url}") == 1
    failed = (
        'handler book failed: KeyError: \'price\' (shop.py:21: yield {"price": page.meta["price"]})'
    )
    assert said.count(failed) == 1
    assert ran.returncode == 1
    end = ran.stdout.splitlines()[0]
    assert "handler errors (--max-errors 3). Correct the spider, then `skitter dead retry" in end
    stats = machine.stats("shop")
    assert (stats.rejected, stats.stored, stats.remaining > 0) == (1, 0, True)
    assert stats.dead >= 3
