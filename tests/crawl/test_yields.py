"""A crawl that stores nothing says which handler yielded nothing, and which selector matched
nothing; ordinary crawls say nothing of the kind."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from crawl.sites import serving
from skitter import Politeness, Spider
from skitter.crawl.findings import Yields, describe_idle, describe_unmatched, too_many_errors

BOOKS = "".join(f'<h3><a href="/book/{n}">{n}</a></h3>' for n in range(3))
PAGES = {"/": BOOKS} | {f"/book/{n}": f"<h1>{n}</h1>" for n in range(3)}


@pytest.fixture(scope="module")
def site():
    with serving(PAGES) as url:
        yield url


@pytest.fixture
def run(site, server_url, job, tmp_path):
    """Run a spider with these handlers, the first for the start page, and return its report."""

    async def run(*handlers, **options):
        spider = Spider(job, [f"{site}/"], politeness=Politeness(delay_s=0))
        for handler in handlers:
            spider.page(handler)
        return await spider.run(str(tmp_path / "items.db"), redis=server_url, **options)

    return run


def listing(page):
    yield from page.follow_all("h3 a", "book")


def book(page):
    yield {"title": page.css_first("h1").text()}


async def test_handlers_that_do_their_part_are_not_mentioned(run):
    report = await run(listing, book)

    assert (report.exit_code, report.items, report.idle, report.unmatched) == (0, 3, [], [])
    assert report.end == "finished"
    again = await run(listing, book)  # nothing is left to do
    assert (again.exit_code, again.pages_now, again.idle, again.unmatched) == (0, 0, [], [])


async def test_a_handler_without_yield_is_named_with_the_line_that_goes_nowhere(run):
    def book(page):
        {"title": page.css_first("h1").text()}

    report = await run(listing, book)

    assert (report.exit_code, report.items, report.pages) == (1, 0, 4)
    assert report.end == "finished, but no item was stored"
    [said] = report.idle
    assert said.startswith("handler book ran 3 times and yielded nothing (not yielded: ")
    assert "test_yields.py:" in said
    assert said.endswith('{"title": page.css_first("h1").text()})')
    again = await run(listing, book)  # it still has nothing
    assert (again.exit_code, again.end, again.pages_now) == (1, report.end, 0)


async def test_a_selector_that_matches_nothing_is_named(run):
    def listing(page):
        yield from page.follow_all("h4 a", "book")

    report = await run(listing, book)

    assert (report.exit_code, report.items, report.pages) == (1, 0, 1)
    assert report.unmatched == ["'h4 a' in handler listing, on 1 page"]
    warned = await run(listing, book, fresh=True, settings={"quality.on_empty": "warn"})
    assert (warned.exit_code, warned.unmatched) == (0, report.unmatched)


async def test_a_spider_that_stores_elsewhere_or_was_stopped_early_has_not_failed(run):
    stored = []

    def book(page):
        stored.append(page.url)

    first = await run(listing, book, settings={"limits.max_pages": 1})
    assert (first.exit_code, first.pages, first.idle) == (0, 1, [])
    report = await run(listing, book)
    assert (report.exit_code, report.pages, len(stored)) == (0, 4, 3)
    assert report.idle == ["handler book ran 3 times and yielded nothing"]


@pytest.mark.parametrize(
    ("before", "after", "idle", "unmatched"),
    [
        ({}, {"pages a": 2, "items a": 1}, {}, {}),
        ({}, {"pages a": 2, "links a": 9}, {}, {}),
        ({}, {"pages a": 2}, {"a": 2}, {}),
        # An earlier run had something: it takes more pages to be sure.
        ({"pages a": 5, "items a": 5}, {"pages a": 7, "items a": 5}, {}, {}),
        ({"pages a": 5, "items a": 5}, {"pages a": 25, "items a": 5}, {"a": 20}, {}),
        ({"pages a": 5}, {"pages a": 5}, {}, {}),  # it did not run
        ({}, {"tried a b c": 3, "found a b c": 1}, {}, {}),
        ({}, {"tried a b c": 3}, {}, {("a", "b c"): 3}),
        ({"tried a b": 3, "found a b": 1}, {"tried a b": 4, "found a b": 1}, {}, {}),
    ],
)
def test_what_counts_as_nothing(before, after, idle, unmatched):
    yields = Yields.between(before, Counter(after))

    assert (yields.idle(), yields.unmatched()) == (idle, unmatched)
    spider = SimpleNamespace(handlers={})
    assert len(list(describe_idle(spider, yields))) == len(idle)  # type: ignore[arg-type]
    assert len(list(describe_unmatched(yields))) == len(unmatched)


KEY, TYPE = "handler a failed: KeyError (x.py:1: x)", "handler a failed: TypeError (x.py:2: y)"


@pytest.mark.parametrize(
    ("counts", "kinds", "options", "stops"),
    [
        # At a terminal: all of the first pages, with one error.
        ({"failed a": 10}, [KEY], {"watched": True}, True),
        ({"failed a": 10, "pages b": 90}, [KEY], {"watched": True}, True),
        ({"failed a": 9}, [KEY], {"watched": True}, False),
        ({"failed a": 10, "pages a": 1}, [KEY], {"watched": True}, False),
        ({"failed a": 10}, [KEY, TYPE], {"watched": True}, False),
        # Where nobody watches, only if asked.
        ({"failed a": 1000}, [KEY], {"watched": False}, False),
        ({"failed a": 3, "failed b": 2, "pages a": 9}, [KEY], {"limit": 5}, True),
        ({"failed a": 4, "pages a": 9}, [KEY], {"limit": 5}, False),
        ({"failed a": 10}, [KEY], {"limit": 50, "watched": True}, False),
    ],
)
def test_when_handlers_have_failed_often_enough(counts, kinds, options, stops):
    options = {"limit": None, "watched": False} | options

    assert bool(too_many_errors(Yields.between({}, Counter(counts)), kinds, **options)) is stops
    later = Yields.between(counts, Counter(counts))  # all of it was in an earlier run
    assert too_many_errors(later, kinds, **options) == ""
