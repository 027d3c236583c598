"""What counts as news."""

from __future__ import annotations

import pytest

from skitter.engine.stages.traps import MAX_KNOWN, News
from skitter.model import Request, Response
from skitter.spider.page import Page
from zoo import prose


def page(body: str | bytes, *, kind: str = "text/html", url: str = "https://a.test/") -> Page:
    content = body.encode() if isinstance(body, str) else body
    headers = (("content-type", kind),)
    return Page(Request(url=url), Response(url=url, status=200, headers=headers, body=content))


CELLS = "".join(f"<td>{number}.5</td>" for number in range(6))


@pytest.mark.parametrize(
    ("first", "then", "is_news"),
    [
        ("<title>One</title>", "<title>One</title>", False),
        ("<title>One</title>", "<title>Two</title>", True),
        ("<title>Page 1</title>", "<title>Page 2</title>", False),  # as in every calendar
        ("<h1>One</h1>", "<h1>Two</h1>", True),
        ('<img alt="A cat">', '<img alt="A dog">', True),
        ('<img alt="A cat">', '<img alt="A cat">', False),
        (f"<table><tr>{CELLS}", f"<table><tr>{CELLS}", False),
        (f"<table><tr>{CELLS}", f"<table><tr>{CELLS.replace('.5', '.7')}", True),
        (prose(1), prose(1), False),
        (prose(1), prose(1) + " and two words", False),
        (prose(1), prose(2), True),
        ("1 2 3 4 5 6 7 8 9", "11 12 13 14 15 16", False),
        ("", "too short", False),
    ],
)
def test_names_numbers_in_tables_and_text_are_news_once(first, then, is_news):
    news = News()
    news.is_news(page(first))

    assert news.is_news(page(then)) is is_news


def test_a_file_is_news_by_its_digest():
    news = News()

    said = [news.is_news(page(body, kind="application/pdf")) for body in (b"%a", b"%b", b"%a")]

    assert said == [True, True, False]


def test_another_host_may_say_the_same():
    news = News()
    assert news.is_news(page("<title>One</title>"))

    assert news.is_news(page("<title>One</title>", url="https://b.test/"))


def test_the_items_of_a_page_are_its_text_without_its_address():
    news, address = News(), "https://a.test/some/very/long/way/to/a/page/of/words"

    assert not news.is_news(page(prose(1), url=address), [{"url": address, "text": "short"}])
    assert news.is_news(page(""), [{"text": prose(1)}])


def test_it_forgets_the_older_half_and_keeps_the_rest():
    news = News()
    for start in range(0, 3 * MAX_KNOWN, 1000):
        assert news.has_new(set(range(start, start + 1000)))

    assert len(news._recent) + len(news._older) <= 2 * MAX_KNOWN + 1000
    assert not news.has_new(set(range(3 * MAX_KNOWN - 1000, 3 * MAX_KNOWN)))
    assert news.has_new(set(range(1000)))
