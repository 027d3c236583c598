"""Run it, wait, run it again: what has become due meanwhile is visited."""

from __future__ import annotations

import json

import pytest

from clocks import server_with_a_faked_clock, set_clock

pytestmark = pytest.mark.timeout(300)

SPIDER = """
from skitter import Spider, Visits

spider = Spider(
    "shop",
    start=["{url}?" + str(number) for number in range(5)],
    visits=Visits(revisit=True, revisit_after_s=60, revisit_min_s=60, revisit_max_s=60),
)

@spider.page
def page(page):
    yield {{"title": page.css_first("title").text()}}
"""


def test_each_later_run_visits_all_that_is_due(open_shop, make_machine):
    """Each starts the server again, whose clock says that ten minutes have passed."""
    machine = make_machine(open_shop(books=50))
    offset = machine.folder / "offset"
    machine.environment["SKITTER_SERVER"] = str(server_with_a_faked_clock(offset))
    (machine.folder / "shop.py").write_text(SPIDER.format(url=machine.shop.url))
    pages = []
    for minutes in (0, 10, 20, 30):
        set_clock(offset, f"+{minutes}m")
        ran = machine.call("run", "shop.py", "--workers", "1", "--delay", "0", "--json")
        pages.append(json.loads(ran.stdout)["pages_now"])

    assert pages == [5, 5, 5, 5]
