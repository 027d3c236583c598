"""What stands at each address, and the many ways to write one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape

import pytest

from skitter.demo.site.addresses import page_of, spell
from skitter.demo.site.catalogue import make_catalogue
from skitter.demo.site.pages import LARGE_PAGE_BYTES, LARGE_PATH, Pages
from skitter.urls import identify, join

ORIGIN = "http://localhost:8000"
HASH_OF_ALL = """
from hashlib import sha256
from skitter.demo.site.catalogue import make_catalogue
from skitter.demo.site.pages import Pages
pages = Pages(make_catalogue(), "http://localhost:8000")
print(sha256("".join(pages.body(page) for page in pages.addresses()).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages(make_catalogue(), ORIGIN)


def text_of(pages: Pages, address: str) -> str:
    text = pages.body(address)
    assert text is not None, address
    return text


def test_every_process_renders_the_same_pages():
    hashes = {
        subprocess.run(
            [sys.executable, "-c", HASH_OF_ALL],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(hashes) == 1


def test_the_shop_has_about_a_thousand_pages(pages):
    assert 900 < len(pages.addresses()) < 1100
    assert len(set(pages.addresses())) == len(pages.addresses())


def test_every_page_is_a_whole_document_with_a_title(pages):
    for address in pages.addresses():
        text = pages.body(address)
        if address not in ("/robots.txt", "/sitemap.xml", "/newsletter"):
            assert text.startswith("<!doctype html>")
            assert "<title>" in text
            assert text.endswith("</html>\n")


def test_the_large_page_is_three_megabytes_in_shops_of_any_size(pages):
    small = Pages(make_catalogue(50), ORIGIN)

    for shop in (pages, small):
        size = len(text_of(shop, LARGE_PATH).encode())
        assert LARGE_PAGE_BYTES < size < 1.2 * LARGE_PAGE_BYTES


def test_what_is_not_there_has_no_text(pages):
    for address in ("/books/none", "/categories/fiction?page=99&sort=title", "/authors/", "/x"):
        assert (pages.body(address) is None) == (address != "/authors/")


def test_a_parameter_that_the_shop_does_not_know_changes_nothing(pages):
    assert pages.body("/about?colour=red") == pages.body("/about")


def test_the_calendar_has_no_end(pages):
    address = "/calendar/2026/11/"
    for _ in range(30):
        text = text_of(pages, address)
        assert len(re.findall(r'<li><a href="/calendar/[^"]+">\d+</a>', text)) == 30
        [address] = re.findall(r'rel="next" href="([^"]+)"', text)
    assert address == "/calendar/2029/5/"


def test_the_sitemap_names_every_page_once_and_nothing_disallowed(pages):
    places = re.findall("<loc>(.*?)</loc>", pages.body("/sitemap.xml"))

    assert len(places) == len(set(places)) == len(pages.addresses()) - 3
    assert not [place for place in places if "/private/" in place or "/calendar/" in place]
    assert all(identify(unescape(place)).canonical == unescape(place) for place in places)


def test_robots_txt_closes_three_areas_and_names_the_sitemap(pages):
    rules = pages.body("/robots.txt")

    for line in ("/private/", "/cart/", "/calendar/"):
        assert f"Disallow: {line}\n" in rules
    assert f"Sitemap: {ORIGIN}/sitemap.xml" in rules
    assert "Crawl-delay" not in rules


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/books/salt-ashes", "/books/東京の雨"])
def test_all_spellings_of_an_address_mean_the_same_page(path):
    page = "/authors/clara-obrien"
    links = [spell(path, origin=ORIGIN, page=page, turn=turn) for turn in range(10)]

    assert len(set(links)) == 10
    urls = [join(f"{ORIGIN}{page}", link) or "" for link in links]
    assert len({identify(url).canonical for url in urls}) == 1
    assert {page_of(url.removeprefix(ORIGIN).partition("#")[0]) for url in urls} == {path}


def test_the_spellings_are_all_in_use(pages):
    text = "".join(pages.body(address) for address in pages.addresses() if "/authors/" in address)

    for sign in ('"HTTP://LOCALHOST:8000/', '"//localhost', '"../books', "?utm_", "#reviews", "%"):
        assert sign in text


def test_the_pager_writes_its_query_in_two_orders(pages):
    text = pages.body("/categories/fiction")

    assert "?sort=title&amp;page=2" in text
    assert "?page=2&amp;sort=title" in text


@pytest.mark.parametrize(
    ("target", "page"),
    [
        ("/", "/"),
        ("/books/a%62c", "/books/abc"),
        ("/x?b=2&a=1", "/x?a=1&b=2"),
        ("/x?utm_source=mail&gclid=1", "/x"),
        ("http://localhost:8000/x?a=1", "/x?a=1"),
        ("http://localhost:8000", "/"),
        ("/x?", "/x"),
    ],
)
def test_a_target_is_read_as_the_page_it_means(target, page):
    assert page_of(target) == page
