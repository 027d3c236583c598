"""Which paths misbehave: a function of the path and of how often it was asked for."""

from __future__ import annotations

from collections import Counter

import pytest

from skitter.demo.site import behaviour
from skitter.demo.site.behaviour import GOOD, behave, write_scripts
from skitter.demo.site.catalogue import OLD_TITLES, make_catalogue


@pytest.fixture(scope="module", params=[50, 700])
def catalogue(request):
    return make_catalogue(request.param)


@pytest.fixture(scope="module")
def scripts(catalogue):
    return write_scripts(catalogue)


def statuses(scripts, path):
    return [behave(scripts, path, asked_before).status for asked_before in range(4)]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (behaviour.BUSY_ONCE, [503, 200, 200, 200]),
        (behaviour.BUSY_TWICE, [503, 503, 200, 200]),
        (behaviour.BROKEN_ONCE, [500, 200, 200, 200]),
        (behaviour.CUT_ONCE, [200, 200, 200, 200]),
    ],
)
def test_books_that_fail_get_better(catalogue, scripts, numbers, expected):
    for number in numbers:
        assert statuses(scripts, catalogue.books[number].path) == expected


def test_a_busy_book_says_when_to_come_back(catalogue, scripts):
    busy = behave(scripts, catalogue.books[behaviour.BUSY_ONCE[0]].path, 0)

    assert busy.retry_after_s == 1


def test_a_book_is_cut_off_the_first_time_only(catalogue, scripts):
    path = catalogue.books[behaviour.CUT_ONCE[0]].path

    assert [behave(scripts, path, n).cut for n in range(3)] == [True, False, False]


def test_ten_books_are_slow_by_200_to_800_ms(scripts):
    delays = [script[0].delay_s for script in scripts.values() if script[0].delay_s]

    assert len(delays) == 10
    assert min(delays) >= 0.2
    assert max(delays) <= 0.8


def test_what_is_gone_stays_gone(scripts):
    for path in behaviour.MISSING_PATHS:
        assert statuses(scripts, path) == [404] * 4
    for path in behaviour.GONE_PATHS:
        assert statuses(scripts, path) == [410] * 4


def test_old_addresses_lead_to_books_by_three_kinds_of_redirect(catalogue, scripts):
    moved = behaviour.moved_books(catalogue)
    kinds = Counter(scripts[behaviour.old_path(book)][0].status for book in moved)

    assert set(kinds) == {301, 302, 308}


def test_the_chain_has_three_links_and_the_loop_one(catalogue, scripts):
    stops = [behaviour.CHAIN[0]]
    while location := behave(scripts, stops[-1], 0).location:
        stops.append(location)

    assert len(stops) == 4
    assert stops[-1] == catalogue.books[0].path
    assert behave(scripts, behaviour.LOOP, 0).location == behaviour.LOOP


def test_no_book_has_two_troubles(catalogue):
    troubled = [
        *behaviour.BUSY_ONCE,
        *behaviour.BUSY_TWICE,
        *behaviour.BROKEN_ONCE,
        *behaviour.CUT_ONCE,
        *behaviour.SLOW,
        *range(behaviour.PACKED_FROM, len(catalogue.books), behaviour.PACKED_EVERY),
        *(catalogue.titled(title).number for title in OLD_TITLES),
    ]

    assert len(troubled) == len(set(troubled))


def test_everything_else_is_good(catalogue, scripts):
    assert behave(scripts, "/", 0) is GOOD
    assert sum(book.path not in scripts for book in catalogue.books) > len(catalogue.books) / 2
