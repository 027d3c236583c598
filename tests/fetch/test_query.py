"""The query of a link is sent in the encoding of its page (URL 4.4, Encoding 4.3 and 10-14)."""

from __future__ import annotations

import pytest

from skitter.fetch.html import encoding as query
from skitter.fetch.html.encoding import encode_query
from skitter.spider.page import Page


@pytest.mark.parametrize(
    ("encoding", "text", "sent"),
    [
        ("windows-1252", "\u2020", "%86"),
        ("windows-1252", "caf\u00e9 \u4e2d", "caf%E9%20%26%2320013%3B"),
        ("windows-1252", "\u0081", "%81"),
        ("windows-1251", "\u0436", "%E6"),
        ("iso-8859-2", "\u0159", "%F8"),
        ("koi8-r", "\u0436", "%D6"),
        ("euc-kr", "\ud55c\uae00", "%C7%D1%B1%DB"),
        ("shift_jis", "\u65e5\u672c", "%93%FA%96{"),
        ("shift_jis", "\u2212", "%81|"),
        ("shift_jis", "\u00a5\u203e\u4e00", "\\~%88%EA"),
        ("euc-jp", "\u2212", "%A1%DD"),
        ("euc-jp", "\uff0d", "%A1%DD"),
        ("iso-2022-jp", "\u65e5", "%1B$BF|%1B(B"),
        ("iso-2022-jp", "\u000e\u65e5", "%26%2365533%3B%1B$BF|%1B(B"),
        ("gbk", "\u4e2d\u20ac", "%D6%D0%80"),
        ("gb18030", "\u4e2d\u20ac", "%D6%D0%A2%E3"),
        ("big5", "\u4e2d", "%A4%A4"),
        ("big5", "\u00fc", "%26%23252%3B"),
        ("utf-8", "\u00fc", "\u00fc"),  # left to the URL parser, which writes UTF-8
        ("utf-16le", "\u00fc", "\u00fc"),
        ("replacement", "\u00fc", "\u00fc"),
    ],
)
def test_what_is_sent_for_a_character(encoding, text, sent):
    assert encode_query(f"/p?q={text}&a=1", encoding) == f"/p?q={sent}&a=1"


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        ("/\u00e9?\u00e9#\u00e9", "/\u00e9?%E9#\u00e9"),
        ("/\u00e9#\u00e9?\u00e9", "/\u00e9#\u00e9?\u00e9"),
        (" /?\u00e9 ", "/?%E9"),
        ("/?a=\n\u00e9", "/?a=%E9"),
        ("/?\u00e9'\"<>", "/?%E9%27%22%3C%3E"),
        ("/?\u00e9%20%zz", "/?%E9%20%zz"),
    ],
)
def test_only_the_query_is_in_the_encoding_of_the_page(link, becomes):
    assert encode_query(link, "windows-1252") == becomes


def test_the_links_of_a_page_are_those_that_a_browser_would_ask_for():
    html = "<meta charset=euc-kr><a href='/\uac00?q=\ud55c#\ud55c'>x</a>".encode("euc-kr")
    page = Page.of(html, url="https://a.test/", headers={"content-type": "text/html"})

    asked = "https://a.test/%EA%B0%80?q=%C7%D1"
    assert page.links() == [asked]
    assert page.follow(page.css_first("a")).url.startswith(asked)
    assert [one.url for one in page.follow_all()] == [asked]


def test_a_sign_that_the_encoding_lacks_is_tried_once_however_often_it_comes():
    """Python's codecs take the square of it: half a megabyte of them held a worker for minutes."""
    query._has.cache_clear()

    sent = encode_query("?" + "日月" * 2000, "windows-1252")

    assert sent == "?" + "%26%2326085%3B%26%2326376%3B" * 2000
    assert query._has.cache_info().misses == 2


def test_what_is_too_long_for_a_link_is_left_as_it_is():
    link = "?" + "é" * 10_000

    assert encode_query(link, "windows-1252") is link
