"""The delay of a host is kept between requests as the site sees them arrive.

What is asserted is the smallest gap. Load can only enlarge it, but for one thing: a request may be
on its way for longer than the next one. The tolerance is for that.
"""

from __future__ import annotations

import random
from contextlib import ExitStack

import pytest

from crawl.clocked import ClockedSite, clocked_site
from crawl.conftest import kill

pytestmark = pytest.mark.timeout(300)

DELAY_S = 0.8
#: A site sees when requests arrive, which on a busy machine is not when they left.
SMALLEST_S = 0.55 * DELAY_S

SPIDER = """
import time
from itertools import count
from skitter import Politeness, Spider

spider = Spider("clock", start={start!r},
                politeness=Politeness(delay_s={delay_s}, max_in_flight={in_flight}))
numbers = count()

@spider.page
def handle(page):
    if next(numbers) % 3 == 1:
        time.sleep({block_s})  # as a handler that works, or waits for a database
    yield {{"url": page.url}}
    for link in page.links():
        yield page.follow(link)
"""


def write_spider(machine, *sites: ClockedSite, in_flight=1, block_s=0.0, delay_s=DELAY_S) -> None:
    text = SPIDER.format(
        start=[site.url for site in sites], in_flight=in_flight, block_s=block_s, delay_s=delay_s
    )
    (machine.folder / "clock.py").write_text(text)


def crawl(machine) -> None:
    done = machine.call("run", "clock.py", "--workers", "2", "-o", "rows.jsonl")
    assert done.returncode == 0, done.stderr


def test_a_slow_robots_txt_counts_as_a_request(make_machine):
    with clocked_site(pages=6, robots_s=0.95 * DELAY_S) as site:
        machine = make_machine(site)
        write_spider(machine, site)

        crawl(machine)

    assert site.paths.count("/robots.txt") == 1
    assert sorted(site.paths) == sorted({"/robots.txt", "/", *(f"/p/{n}" for n in range(1, 6))})
    assert min(site.gaps) >= SMALLEST_S


def test_handlers_that_hold_the_process_up_bring_no_two_requests_together(make_machine):
    with ExitStack() as sites:
        several = [sites.enter_context(clocked_site(pages=8)) for _ in range(3)]
        machine = make_machine(several[0])
        write_spider(machine, *several, in_flight=2, block_s=0.8 * DELAY_S)

        crawl(machine)

    for site in several:
        assert len(site.paths) == len(set(site.paths)) == 9
        assert min(site.gaps) >= SMALLEST_S


def test_a_page_that_moves_to_another_spelling_of_itself_is_two_requests(make_machine):
    with clocked_site(pages=3, moved=True) as site:
        machine = make_machine(site)
        write_spider(machine, site)

        crawl(machine)

    assert len(site.paths) == len(set(site.paths)) == 7
    assert min(site.gaps) >= SMALLEST_S


def test_a_crawl_delay_of_robots_txt_holds_from_the_first_page(make_machine):
    robots = f"User-agent: *\nCrawl-delay: {DELAY_S}\n"
    with clocked_site(pages=4, robots=robots) as site:
        machine = make_machine(site)
        write_spider(machine, site, delay_s=0)

        crawl(machine)

    assert len(site.paths) == 5
    assert min(site.gaps) >= SMALLEST_S


def test_workers_that_are_killed_leave_no_two_requests_together(make_machine, until):
    with clocked_site(pages=14) as site:
        machine = make_machine(site)
        write_spider(machine, site, in_flight=2, block_s=0.3 * DELAY_S)
        run = machine.start("run", "clock.py", "--workers", "2", "-o", "rows.jsonl")
        for asked in (4, 7, 10):
            until(lambda: len(site.arrivals) >= asked)  # noqa: B023
            kill(random.choice(until(lambda: machine.children("work"))))
        _, err = run.communicate(timeout=600)

    assert run.returncode == 0, err
    assert {f"/p/{n}" for n in range(1, 14)} <= set(site.paths)
    assert min(site.gaps) >= SMALLEST_S
