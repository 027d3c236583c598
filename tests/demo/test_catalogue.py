"""The shelves are the same everywhere."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from bookshop import expected_items
from skitter.demo.site import BookShop
from skitter.demo.site.catalogue import make_catalogue, slugify
from skitter.demo.site.pages import PER_PAGE
from skitter.errors import BadOption


def test_the_books_are_the_same_on_every_machine_and_every_python():
    items = json.dumps(expected_items(BookShop())).encode()

    assert sha256(items).hexdigest()[:16] == "ac8469fb78852190"


@pytest.mark.parametrize("books", [50, 60, 700, 5000])
def test_a_shop_has_as_many_books_as_asked_for_and_no_two_alike(books):
    catalogue = make_catalogue(books)

    assert len(catalogue.books) == books
    for fact in ("path", "title", "upc", "number"):
        assert len({getattr(book, fact) for book in catalogue.books}) == books
    assert len({author.path for author in catalogue.authors}) == len(catalogue.authors)


@pytest.mark.parametrize("books", [50, 60, 700])
def test_no_shelf_is_empty_and_some_need_a_second_page(books):
    catalogue = make_catalogue(books)

    sizes = [len(shelf) for shelf in catalogue.by_category.values()]
    assert min(sizes) >= 1
    assert max(sizes) > PER_PAGE
    assert all(catalogue.by_author.values())


def test_a_smaller_shop_has_the_same_first_titles():
    small, large = make_catalogue(60), make_catalogue(700)

    assert [book.title for book in small.books] == [book.title for book in large.books[:60]]


def test_every_upc_has_a_valid_check_digit():
    for book in make_catalogue().books:
        digits = [int(digit) for digit in book.upc]
        assert len(digits) == 12
        assert (3 * sum(digits[::2]) + sum(digits[1::2])) % 10 == 0


@pytest.mark.parametrize("books", [0, 49, 5001, -1])
def test_a_size_that_the_shop_cannot_have_is_refused(books):
    with pytest.raises(BadOption, match="books must be a number from 50 to 5,000"):
        make_catalogue(books)


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("The Printer's Feast", "the-printers-feast"),
        ("Less < More > Enough", "less-more-enough"),
        ("Señor Ibáñez\u2019s Umbrella", "senor-ibanezs-umbrella"),
        ("東京の雨", "東京の雨"),
    ],
)
def test_slugs_lose_accents_and_keep_other_scripts(title, slug):
    assert slugify(title) == slug
