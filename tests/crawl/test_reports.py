"""What a crawl says: at its end, and while it runs."""

from __future__ import annotations

import json

import pytest

from skitter.demo import SPIDER

pytestmark = pytest.mark.timeout(120)

TALKING = """
import sys
from skitter import Limits, Politeness, Spider
spider = Spider("talk", ["%URL%"], politeness=Politeness(delay_s=0, max_in_flight=4),
                limits=Limits(max_pages=3))
@spider.page
def page(page):
    print("printed by a handler")
    yield {"url": page.url}
    yield from page.follow_all()
"""


@pytest.fixture
def machine(open_shop, make_machine):
    shop = open_shop(books=50)
    machine = make_machine(shop)
    (machine.folder / "talk.py").write_text(TALKING.replace("%URL%", shop.url))
    return machine


def test_when_nothing_was_fetched_it_is_no_success(machine):
    done = machine.call("crawl", f"{machine.shop.url}/missing", "--rate", "none")

    assert done.returncode == 1, done.stderr
    assert "nothing was fetched" in done.stdout
    assert "missing: 404 Not Found" in done.stdout  # it says why


def test_a_crawl_that_ends_at_max_pages_says_so_and_its_processes_may_print(machine):
    done = machine.call("run", "talk.py", "--workers", "1", "--json")

    report = json.loads(done.stdout)  # what handlers print is not in the way
    assert done.returncode == 0, done.stderr
    assert report["end"] == f"stopped at max_pages=3; {report['pending']:,} URLs left"
    assert report["pending"] > 0
    assert done.stderr.count("printed by a handler") == 3
    log = machine.folder / ".skitter" / "logs" / "talk.log"
    assert log.read_text().count("printed by a handler") == 3

    machine.call("set", "talk", "--max-pages", "5")
    joined = machine.call("worker", "talk.py", "--processes", "1")

    assert joined.returncode == 0, joined.stderr
    stats = json.loads(machine.call("status", "talk", "--json").stdout)
    assert stats["done"] == 5  # whoever joins takes the job as it is


def test_a_worker_that_comes_first_makes_the_job_as_its_spider_wants_it(machine, until):
    machine.start("up").communicate()
    helper = machine.start("worker", str(SPIDER), "--processes", "1")
    until(lambda: machine.call("status", "books").returncode == 0)

    options = json.loads(machine.call("set", "books", "--json").stdout)

    assert options["politeness"]["delay_s"] == 0
    assert options["limits"]["max_items"] == 50_000
    helper.terminate()
    helper.communicate()
