"""When what is scraped counts as bad: the last pages of a handler beside the best before them."""

from __future__ import annotations

from collections import Counter

import pytest

from skitter.observe.quality import Finding, History, Window, judge, sparkline, total
from skitter.settings import QualityOptions

DEFAULT = QualityOptions()
NOTHING: list[str] = []


def window(
    pages: int = 50, per_page: float = 1.0, *, price: float = 1.0, kind: str = "number", blocked=0
) -> Window:
    """Items with a title, and a price in some of them."""
    items = round(pages * per_page)
    filled = Counter({("title", "text"): items, ("price", kind): round(items * price)})
    return Window(0.0, pages, items, blocked, +filled)


GOOD = [window()] * 6
LISTS = [window(per_page=20)] * 6


@pytest.mark.parametrize(
    ("windows", "options", "found"),
    [
        # what is as it was
        (GOOD * 3, DEFAULT, NOTHING),
        ([window(price=0.5)] * 9, DEFAULT, NOTHING),
        ([], DEFAULT, NOTHING),
        ([window(per_page=0)] * 9, DEFAULT, NOTHING),
        # a field that was filled
        (
            [*GOOD, window(price=0), window(price=0)],
            DEFAULT,
            ["parse: 'price' is filled in 0% of the items, down from 100%"],
        ),
        (
            [*GOOD, *[window(price=0)] * 60],  # still bad when most of the crawl was
            DEFAULT,
            ["parse: 'price' is filled in 0% of the items, down from 100%"],
        ),
        (
            [*GOOD, window(price=0.4), window(price=0.4)],
            DEFAULT,
            ["parse: 'price' is filled in 40% of the items, down from 100%"],
        ),
        ([*GOOD, window(price=0.6), window(price=0.6)], DEFAULT, NOTHING),
        (
            [*GOOD, window(price=0.6), window(price=0.6)],
            QualityOptions(max_fill_drop=0.2),
            ["parse: 'price' is filled in 60% of the items, down from 100%"],
        ),
        ([*GOOD, window(price=0)], QualityOptions(max_fill_drop=None, min_pages=50), NOTHING),
        # too little to tell
        ([*GOOD, window(10, price=0)], DEFAULT, NOTHING),
        ([window(), window(price=0)], DEFAULT, NOTHING),
        # 4 of 100 instead of 10 of 100 is what chance does to one of many fields
        ([window(price=0.1)] * 6 + [window(price=0.04)] * 2, DEFAULT, NOTHING),
        # the many items of a page have much in common: 5 pages are no proof
        (
            [window(5, per_page=50, price=0.5)] * 20 + [window(5, per_page=50, price=0.2)] * 2,
            QualityOptions(min_pages=10),
            NOTHING,
        ),
        # another type
        (
            [*GOOD, window(kind="text"), window(kind="text")],
            DEFAULT,
            ["parse: 'price' is now text, and was number"],
        ),
        ([window(kind="text"), *GOOD], DEFAULT, NOTHING),
        # items per page
        (
            [*LISTS, window(per_page=2), window(per_page=2)],
            DEFAULT,
            ["parse: 2 items per page, down from 20"],
        ),
        ([*LISTS, window(per_page=8), window(per_page=8)], DEFAULT, NOTHING),
        (
            [*LISTS, window(per_page=0), window(per_page=0)],
            DEFAULT,
            ["parse: 0 items per page, down from 20"],
        ),
        (
            [*LISTS, window(per_page=2), window(per_page=2)],
            QualityOptions(max_items_drop=None),
            NOTHING,
        ),
        (
            [window(per_page=0.5)] * 9,
            QualityOptions(min_items_per_page=0.9),
            ["parse: 0.5 items per page, below quality.min_items_per_page = 0.9"],
        ),
        # block pages
        (
            [*GOOD, window(blocked=40), window(blocked=40)],
            DEFAULT,
            ["parse: 44% of the responses are block pages"],
        ),
        ([*GOOD, window(blocked=5), window(blocked=5)], DEFAULT, NOTHING),
        (
            [*GOOD, window(blocked=9), window(blocked=9)],
            DEFAULT,
            ["parse: 15% of the responses are block pages, up from 0%"],
        ),
        (
            [*GOOD, window(blocked=9), window(blocked=9)],
            QualityOptions(max_blocked_rise=None),
            NOTHING,
        ),
        ([window(blocked=9)] * 9, DEFAULT, NOTHING),  # as it always was
        (
            [*GOOD, Window(0.0, pages=0, blocked=100)],
            DEFAULT,
            ["parse: 100% of the responses are block pages"],
        ),
        ([*GOOD, window(blocked=40)], QualityOptions(max_blocked=None), NOTHING),
    ],
)
def test_judge(windows, options, found):
    assert [str(one) for one in judge([History("parse", windows)], options)] == found


def test_what_was_bad_before_this_run_is_not_held_against_it():
    bad = Window(10.0, 200, 200, 0, Counter({("title", "text"): 200}))
    history = History("parse", [*GOOD, bad])

    assert judge([history], DEFAULT)
    assert not judge([history], DEFAULT, since=11.0)


def typed(books: int = 50, offers: int = 50, *, price: float = 1.0) -> Window:
    """50 pages with books and offers; only books have a price."""
    filled = {
        ("Book._type", "text"): books,
        ("Book.price", "number"): round(books * price),
        ("Offer._type", "text"): offers,
        ("Offer.seller", "text"): offers,
    }
    return Window(0.0, 50, books + offers, 0, +Counter(filled))


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (typed(offers=900), NOTHING),  # one item in nineteen has a price: all books have one
        (typed(price=0), ["parse: 'Book.price' is filled in 0% of the items, down from 100%"]),
        (typed(books=0), ["parse: 0 items of Book per page, down from 1"]),
        (typed(books=5), ["parse: 0.1 items of Book per page, down from 1"]),
    ],
)
def test_each_item_type_is_judged_apart(now, found):
    histories = [History("parse", [*[typed()] * 6, now, now])]
    assert [str(finding) for finding in judge(histories, DEFAULT)] == found


def test_fields_that_an_earlier_release_counted_for_all_types_are_not_judged():
    before = Window(0.0, 50, 100, 0, Counter({("price", "number"): 50, ("seller", "text"): 50}))
    assert not judge([History("parse", [before] * 6 + [typed(price=0.9)] * 2)], DEFAULT)


def test_a_dot_in_the_name_of_a_field_is_no_type():
    before = Window(0.0, 50, 50, 0, Counter({("title", "text"): 50, ("og.title", "text"): 50}))
    now = Window(0.0, 50, 50, 0, Counter({("og.title", "text"): 50}))
    found = judge([History("parse", [before] * 6 + [now] * 2)], DEFAULT)
    assert [str(finding) for finding in found] == [
        "parse: 'title' is filled in 0% of the items, down from 100%"
    ]


def test_examples_of_a_finding_about_a_type_lack_it():
    book, offer = {"_type": "Book", "price": 1}, {"_type": "Offer", "price": None}
    lost = Finding("parse", "Book.price", "")
    assert not lost.is_shown_by([book, offer])
    assert lost.is_shown_by([{**book, "price": None}, offer])
    assert not lost.is_shown_by([offer])
    gone = Finding("parse", "Book._type", "")
    assert gone.is_shown_by([offer])
    assert not gone.is_shown_by([book])


def test_windows_add_up():
    both = total([window(price=0.5), window(kind="text"), window(10, per_page=0)])

    assert (both.pages, both.items, both.fill("price")) == (110, 100, 0.75)
    assert both.type_of("price") == "number|text"
    assert both.type_of("title") == "text"


def test_a_sparkline_has_a_bar_per_value():
    assert sparkline([0, 0.5, 1, None, 2], peak=1) == "▁▅█·█"
    assert sparkline([0, 0], peak=0) == "▁▁"
