"""Page: what a handler sees. Literals show what it does, hypothesis that nothing breaks it."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.errors import SkitterError, UsageError
from skitter.model import Request, Response
from skitter.spider.default import visible_text
from skitter.spider.page import BadSelector, LibraryMissing, NoLink, NoMatch, NotJSON, Page
from skitter.urls import join

URL = "https://shop.example/books/index.html"
patient = settings(deadline=None)


def page_of(html: str | bytes, url: str = URL, **options) -> Page:
    return Page.of(html, url=url, **options)


# --- what came back -------------------------------------------------------------------------------


def test_a_page_tells_what_the_server_answered():
    request = Request(url=URL, depth=2, meta={"shelf": 7})
    headers = (("content-type", "Text/HTML; charset=latin1"), ("x-a", "1"), ("x-a", "2"))
    page = Page(request, Response(url=URL, status=404, headers=headers, body=b"caf\xe9"))
    assert (page.url, page.status, page.depth, page.meta) == (URL, 404, 2, {"shelf": 7})
    assert (page.header("X-A"), page.header("x-b"), page.header("x-b", "-")) == ("1", None, "-")
    assert page.headers == headers
    assert page.content_type == "text/html"
    assert page.is_html
    assert (page.text, page.encoding, page.body) == ("café", "windows-1252", b"caf\xe9")
    assert repr(page) == f"<Page 404 {URL}>"


def test_a_body_in_utf_8_is_parsed_as_it_came_and_not_encoded_again():
    page = page_of("<p>na\u00efve</p>".encode())

    assert page.css_first("p").text() == "na\u00efve"
    assert page.tree.raw_html is page.body


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (b"<p>caf\xe9</p>", "utf-8", "caf\ufffd"),
        (b"<p>caf\xe9</p>", "latin1", "caf\u00e9"),
        (b"\xef\xbb\xbf<p>caf\xc3\xa9</p>", "latin1", "caf\u00e9"),
        (b"<p>\xed\xa0\x80</p>", "utf-8", "\ufffd\ufffd\ufffd"),  # half of a pair
        (b"<p>\xef\xbf\xbd</p>", "utf-8", "\ufffd"),  # as the server sent it
    ],
)
def test_any_other_body_is_parsed_as_its_text(body, charset, text):
    page = page_of(body, headers={"content-type": f"text/html; charset={charset}"})

    assert page.css_first("p").text() == text
    assert page.css_first("body").html == f"<body><p>{text}</p></body>"


@pytest.mark.parametrize(
    ("content_type", "body", "is_html"),
    [
        ("application/xhtml+xml", b"", True),
        ("application/json", b"<html>", False),
        ("", b" \n<!doctype html>", True),
        ("", b"%PDF-1.7", False),
        ("", b"", False),
    ],
)
def test_a_page_is_html_if_a_browser_would_show_it_as_html(content_type, body, is_html):
    headers = {"content-type": content_type} if content_type else {}
    assert page_of(body, headers=headers).is_html is is_html


def test_the_document_is_parsed_once():
    page = page_of("<p>x")
    assert page.tree is page.tree


def test_json_is_read_strictly_first_and_then_as_servers_write_it():
    assert page_of('{"a": [1, 2.5, null]}').json() == {"a": [1, 2.5, None]}
    assert page_of('["line\nbreak", Infinity]').json() == ["line\nbreak", float("inf")]


@pytest.mark.parametrize("body", ["", "<html>", "[" * 100_000])
def test_a_body_that_is_not_json_names_the_page(body):
    with pytest.raises(NotJSON, match=r"not JSON.*shop\.example.*status 200"):
        page_of(body).json()


# --- elements -------------------------------------------------------------------------------------


def test_css_finds_all_and_css_first_the_first():
    page = page_of("<h1>One</h1><p>a<p>b")
    assert [node.text() for node in page.css("p")] == ["a", "b"]
    assert page.css_first("p").text() == "a"
    assert page.css("table") == []


def test_a_missing_element_names_the_selector_and_the_page():
    with pytest.raises(NoMatch) as caught:
        page_of("<p>", status=403).css_first("h1.title")
    assert "'h1.title'" in str(caught.value)
    assert URL in str(caught.value)
    assert "status 403" in str(caught.value)
    assert "default=None" in str(caught.value)


def test_a_default_stands_in_for_a_missing_element():
    page = page_of("<p>")
    assert page.css_first("h1", default=None) is None
    assert page.css_first("h1", "none") == "none"


@pytest.mark.parametrize("selector", ["a[", "", "p::", "\ud800", None, 3])
def test_a_selector_that_does_not_parse_is_named(selector):
    page = page_of("<p>")
    for look in (page.css, page.css_first, lambda s: page.css_first(s, None)):
        with pytest.raises(BadSelector, match="is not a selector"):
            look(selector)


def test_xpath_without_lxml_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    monkeypatch.setitem(sys.modules, "lxml.html", None)
    with pytest.raises(LibraryMissing, match="pip install lxml"):
        page_of("<p>").xpath("//p")


def test_xpath_finds_what_lxml_finds():
    pytest.importorskip("lxml")
    page = page_of("<a href='/x'>é</a>")
    assert page.xpath("//a/@href") == ["/x"]
    assert page.xpath("//a")[0].text == "é"
    assert page_of("").xpath("//a") == []
    for wrong in ("//[", "nothing(1)", "\x00"):
        with pytest.raises(BadSelector):
            page.xpath(wrong)


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("html", "links"),
    [
        ("<a href=a.html>", ["https://shop.example/books/a.html"]),
        ("<a href=/>1</a><a href=//x.org>2</a>", ["https://shop.example/", "https://x.org/"]),
        ("<map><area href=/m></map>", ["https://shop.example/m"]),
        ("<a href=/1></a><area href=/2><a href=/3></a>", ["/1", "/2", "/3"]),
        ("<svg><a href=/1></a><a xlink:href=/2></a></svg>", ["/1"]),
        ("<a href='/?a=1&amp;b=2'>", ["https://shop.example/?a=1&b=2"]),
        ("<a href=' \n/a '>", ["https://shop.example/a"]),
        ("<a href=/a>1</a><a href=/b>2</a><a href=/a>3</a><a href=../a>4</a>", ["/a", "/b"]),
        ("<a href=/a#x>1</a><a href=/a#y>2</a><a href=/a>3</a>", ["/a"]),
        ("<a href>", [URL]),
        ("<a href='#top'>", [URL]),
        ("<a href=mailto:a@b.c><a href=javascript:x()><a href=tel:1><a href=ftp://a/>", []),
        ("<a href='http://['><a href='https://'><a name=x>", []),
        (f"<a href='/{'x' * 9000}'>", []),
        ("<base href=/other/><a href=a>", ["https://shop.example/other/a"]),
        ("<BASE\nhref='https://cdn.example/x/'><a href=a>", ["https://cdn.example/x/a"]),
        ("<base target=_top><base href=/1/><base href=/2/><a href=a>", ["/1/a"]),
        ("<base href='javascript:1'><a href=a>", ["/books/a"]),
        ("<base href><a href=a>", ["/books/a"]),
        ("&lt;base href=/no/><a href=a>", ["/books/a"]),
        ("<!-- <base href=/no/> --><a href=a>", ["/books/a"]),
    ],
)
def test_links_are_absolute_and_each_is_there_once_in_order(html, links):
    assert page_of(html).links() == [join(URL, link) for link in links]


def test_links_keep_their_fragments_when_asked():
    page = page_of("<a href='#/one'>1</a><a href='#/two'>2</a>")
    assert page.links(keep_fragment=True) == [f"{URL}#/one", f"{URL}#/two"]
    assert page.links() == [URL]


def test_nofollow_links_are_left_out_only_when_asked():
    page = page_of("<a href=/a rel='me NOFOLLOW'>1</a><a href=/b rel=nofollower>2</a>")
    assert page.links() == ["https://shop.example/a", "https://shop.example/b"]
    assert page.links(skip_nofollow=True) == ["https://shop.example/b"]


def test_a_caller_who_changes_the_list_of_links_changes_only_a_copy():
    page = page_of("<a href=/a>")
    page.links().clear()
    assert page.links() == ["https://shop.example/a"]


def test_absolute_resolves_text_and_elements_and_leaves_what_http_cannot_fetch():
    page = page_of("<a href=b.html>x</a><img src=/i.png>")
    assert page.absolute("../c") == "https://shop.example/c"
    assert page.absolute(page.css_first("a")) == "https://shop.example/books/b.html"
    assert page.absolute(page.css_first("img")) == "https://shop.example/i.png"
    assert page.absolute("data:text/plain,x") == "data:text/plain,x"


# --- following ------------------------------------------------------------------------------------


def book(page): ...


def test_follow_makes_a_request_one_step_deeper_that_knows_its_parent():
    page = Page(Request(url=URL, depth=3), Response(url=URL, status=200, body=b"<a href=x>"))
    expected = Request(
        url="https://shop.example/books/x", depth=4, parent=URL, handler="book", priority=5
    )
    assert page.follow(page.css_first("a"), book, priority=5) == expected
    assert page.follow("x", "book", priority=5) == expected
    assert page.follow("x").handler is None


def test_follow_takes_every_field_of_a_request():
    request = page_of("").follow(
        "/search", book, method="POST", body=b"q=1", headers={"x-a": "1"}, meta={"q": 1}
    )
    assert (request.method, request.body) == ("POST", b"q=1")
    assert (request.headers, request.meta) == ({"x-a": "1"}, {"q": 1})


def test_follow_never_fails_on_what_a_page_links_to():
    page = page_of("<a href='mailto:a@b.c'>1</a><a href='http://['>2</a><a href>3</a>")
    urls = [page.follow(link).url for link in page.css("a")]
    assert urls == ["mailto:a@b.c", "http://[", URL]


@pytest.mark.parametrize(
    ("link", "said"),
    [(None, "a NoneType is not a link"), (7, "a int is not a link"), ("div", "<div> has no href")],
)
def test_follow_says_what_cannot_be_a_link(link, said):
    page = page_of("<div>")
    with pytest.raises(NoLink, match=said):
        page.follow(page.css_first("div") if link == "div" else link)


def test_a_handler_without_a_name_is_refused():
    with pytest.raises(UsageError, match="cannot be a handler"):
        page_of("").follow("/", 7)  # type: ignore[arg-type]


def test_dont_filter_sets_each_request_apart_and_a_second_run_asks_for_the_same():
    def run(page: Page) -> list[str]:
        return [page.follow(page.url, dont_filter=True).unique for _ in range(2)]

    first, second = run(page_of(""))
    assert first != second
    assert run(page_of("")) == [first, second]
    polled = Page(Request(url=URL, unique=first), Response(url=URL, status=200))
    assert not {first, second} & set(run(polled))
    assert page_of("").follow("/").unique == ""


def test_follow_all_takes_a_selector_an_iterable_or_every_link():
    page = page_of("<h3><a href=/a>1</a><a name=x>-</a><a href=/a>again</a></h3><a href=/b>2</a>")
    a, b = "https://shop.example/a", "https://shop.example/b"
    assert [request.url for request in page.follow_all("h3 a", book)] == [a]
    assert [request.url for request in page.follow_all()] == [a, b]
    assert [request.url for request in page.follow_all(["/b", page.css_first("a")])] == [b, a]
    request = page.follow_all("h3 a", book, priority=2, meta={"k": 1})[0]
    assert request == page.follow(a, book, priority=2, meta={"k": 1})


# --- any bytes ------------------------------------------------------------------------------------

TAGS = st.sampled_from(
    ["<a href='", "'>", "<base href=", "<p>", "</", "<!--", "<svg>", "<title>", "<table>", "&#x",
     "http://", "//", "[", "<script>", "\x00", "#", "<meta charset=", "utf-16", ">"]
)  # fmt: skip
MARKUP = st.lists(TAGS | st.text(max_size=4), max_size=40).map("".join)
BODIES = st.binary(max_size=400) | MARKUP.map(lambda text: text.encode(errors="replace"))
CHARSETS = st.sampled_from(["", "utf-8", "utf-16", "latin1", "shift_jis", "no-such", "\xff"])


@patient
@given(body=BODIES, charset=CHARSETS, link=st.text(max_size=30), selector=st.text(max_size=8))
def test_no_page_raises_anything_but_our_errors(body, charset, link, selector):
    headers = (("content-type", f"text/html; charset={charset}"),) if charset else ()
    page = Page(Request(url=URL), Response(url=URL, status=200, headers=headers, body=body))
    assert isinstance(page.text, str)
    assert all(url.startswith(("http://", "https://")) for url in page.links(keep_fragment=True))
    assert len(page.follow_all()) == len(page.links(skip_nofollow=False))
    assert isinstance(page.follow(link).url, str)
    assert isinstance(visible_text(page), str)
    assert isinstance(page.is_html, bool)
    for look in (page.json, lambda: page.css(selector), lambda: page.css_first(selector)):
        try:
            look()
        except SkitterError as error:
            assert str(error)  # noqa: PT017 - any of ours will do


@patient
@given(hrefs=st.lists(st.text(max_size=20), max_size=10))
def test_links_are_what_a_loop_over_the_tree_would_find(hrefs):
    html = "".join(f"<a href={escape(href)}>x</a>" for href in hrefs)
    page = page_of(
        html.encode(errors="replace"), headers={"content-type": "text/html;charset=utf8"}
    )
    found = [join(URL, node.attributes["href"] or "") for node in page.css("a")]
    assert page.links(keep_fragment=True) == list(dict.fromkeys(url for url in found if url))


def escape(href: str) -> str:
    return '"' + href.replace("&", "&amp;").replace('"', "&quot;") + '"'


def test_a_body_that_is_text_is_sent_as_utf_8():
    assert Page.of("").follow("/", method="POST", body="a=\u00fc").body == b"a=\xc3\xbc"


@pytest.mark.parametrize(
    ("selector", "instead"), [("h1::text", r"\.text\(\)"), ("a::attr(href)", r"\.attributes\[")]
)
def test_a_selector_of_scrapy_is_answered_with_what_to_write_instead(selector, instead):
    page = Page.of("<h1>x</h1>")
    for look in (page.css, page.css_first):
        with pytest.raises(BadSelector, match=instead):
            look(selector)
