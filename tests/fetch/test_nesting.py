"""What would stop the parser is found before it is parsed, in linear time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from skitter.fetch.html import markup
from skitter.fetch.html.markup import can_be_parsed, is_cheap, is_small, is_tidy
from skitter.spider.page import Page, TooComplex

SIZE = 10 * 2**20
EMOJI = "\U0001f600"


def flood(part: str, *, before: str = "", size: int = SIZE) -> str:
    return before + part * (size // len(part))


def numbered(part: str, count: int) -> str:
    return "".join(part.replace("#", str(n)) for n in range(count))


def dressed(name: str, count: int, attributes: int, inside: str = "") -> str:
    """Start tags that differ, with attributes."""
    return numbered(f"<{name} id=# {numbered('a# ', attributes).strip()}>{inside}", count)


#: Each takes lexbor seconds or hundreds of megabytes, at this size or far below it. Together they
#: are 200 MB, which every process that collects this file would keep.
HOSTILE: dict[str, Callable[[], str]] = {
    "div": lambda: flood("<div>"),
    "DIV": lambda: flood("<DIV class=x>"),
    "span": lambda: flood("<span><br>"),
    "comments": lambda: flood("<!-- </div> --><div>"),
    "end tags of nothing": lambda: flood("<div></x>"),
    "end of body": lambda: flood("<body><div></body>"),
    "end behind a table": lambda: flood("<div><table></div>"),
    "end in an attribute": lambda: flood("<div><p a='</p></div>'></p>"),
    "quote in a name": lambda: flood("<a '><div>'></a>"),
    "end in a title": lambda: flood('<div><title a="></title></div>"></title>'),
    "end in a script": lambda: flood("<div><script><!--<script></script></div></script>"),
    "abrupt comment": lambda: flood("<!--><div><!-->"),
    "form": lambda: flood("<form><div></form>"),
    "svg": lambda: flood("<svg><div>"),
    "in svg": lambda: flood("<g a=x/>", before="<svg>"),
    "style in svg": lambda: flood("<g>", before="<svg><style>", size=SIZE // 4) + "</style>",
    "options": lambda: flood("<option>", before="<select>"),
    "lists": lambda: flood("<ul><li>"),
    "blocks in formatting": lambda: flood("<a><div>"),
    "formatting that nobody closes": lambda: numbered("<p><font color=#>", 5_000),
    "formatting in divisions": lambda: "".join(
        f"<div>{numbered('<p><b id=#>', 50)}</div>" for _ in "x" * 300
    ),
    "formatting that is repeated": lambda: f"<p>{dressed('b', 30, 600)}{'<p>x' * 900}",
    "tidy formatting that is repeated": lambda: f"<p>{dressed('b', 200, 19)}{'<p>x' * 700}",
    "formatting beside orderly paragraphs": lambda: (
        f"<div>{dressed('b', 15, 150)}</div>{'<p>x</p>' * 10_000}"
    ),
    "formatting around formatting": lambda: f"<p>{dressed('b', 200, 19, '<b></b>')}{'<p>x' * 500}",
    "attributes": lambda: f"<p {numbered('a# ', 300_000)}>",
    "attributes of the body": lambda: numbered("<body a#=1>", 50_000),
    "attributes behind a quote": lambda: f'<div a="<p>"{numbered("a# ", 30_000)}</p>',
    "attributes of many bodies": lambda: "".join(
        f"<body {numbered(f'a{n}x# ', 19)}>" for n in range(900)
    ),
    "a value that is repeated": lambda: f"<p><b a='{'x' * 79_000}'>{'<p>x' * 4_990}",
    "a long value that is repeated": lambda: f"<p><b a='{'x' * 10**6}'>{'<p>x' * 900}",
    "a value of four bytes a character": lambda: f"<p><b a='{EMOJI * 79_000}'>{'<p>x' * 900}",
    "text behind tags that are ignored": lambda: "x" * 500_000 + "<tr a=b>xxxxxxxx" * 4_900,
    "text behind comments in a table": lambda: (
        "x" * 500_000 + "<table>" + "<!--a-->xxxxxxxx" * 4_900
    ),
    "names of attributes": lambda: numbered(f"<p {' '.join(f'a{n}x#' for n in range(19))}>", 4_990),
    "one-letter attributes": lambda: "<p" + "".join(f" {chr(0x4E00 + n)}" for n in range(20_000)),
    "end tags of nothing in a little": lambda: "<x>" * 2_387 + "</y>" * 23_000,
    "zero characters": lambda: "<!--" + "\0" * 9_900_000 + "-->",
    "line breaks": lambda: flood("<br>"),
    "stray signs": lambda: flood("< "),
    "unclosed comments": lambda: flood("<!--"),
}


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "unclosed comments"])
def test_what_is_expensive_is_never_taken_for_plain(name):
    assert not is_cheap(HOSTILE[name]())


@pytest.mark.parametrize(
    "name", ["div", "formatting that nobody closes", "attributes", "line breaks"]
)
def test_a_page_that_would_stop_the_parser_is_refused(name):
    with pytest.raises(TooComplex, match="takes the parser too much time or memory"):
        Page.of(HOSTILE[name]()).links()


@pytest.mark.parametrize(
    "part", ["<!--", "<!-", "<", "</", "<script>", "<script", "<a b='", "<a '", "x "]
)
def test_ten_megabytes_of_anything_are_read_once(part):
    """Read again from every tag, they would take hours."""
    is_cheap(flood(part))
    is_tidy(part * 1_000 + "x " * (SIZE // 2))


@pytest.mark.parametrize(
    "part",
    [
        "<p>text",
        "<li class='x' id=y>",
        "<a href=\"x\"><img alt='' src='y' /></a>",
        "<a href=x> <span class=y>text</span> <b>text</b></a>",
        "<!-- x -->",
    ],
)
def test_a_tidy_page_of_few_elements_is_plain_however_long_its_text_is(part):
    text = f"<!DOCTYPE html>\n<html lang='en'><body>{(part + 'text ' * 100) * 150}</body></html>"

    assert is_tidy(text)


def test_a_page_of_many_tags_is_not_tidy_whatever_its_length():
    few, many = ("<p>text</p>" * 500, "<p>text</p>" * markup.FEW_TAGS)

    for text in (few, many):
        assert is_tidy(text) == is_tidy(text + " " * 50_000) == (text is few)


@pytest.mark.parametrize(
    ("part", "tidy"),
    [
        ("<p><a href='x' class=y>text</a> 1 &lt; 2", True),
        ("<P><A HREF=x>text</A>", True),
        ("<P><A HREF=x><IMG SRC=y></a>", False),
        ("<li><a href=x><span class=y>text</span> <b>text</b></a>", True),
        ("<li><a href=x><code><span>te</span><var>xt</var></code><wbr></a>", True),
        ("<p><b>text<br>", False),
    ],
)
def test_a_page_of_few_tags_is_plain_if_its_formatting_is_closed(part, tidy):
    text = part * 140 + "text " * 10_000

    assert not is_small(text)
    assert is_tidy(text) == tidy


@pytest.mark.parametrize(("tags", "small"), [(0, True), (1, True), (1_720, True), (1_740, False)])
def test_a_body_is_small_if_its_text_is(tags, small):
    text = "<" * tags + "text"  # few copies: 1,730 times 1,734

    assert is_small(text) == is_small(text.encode()) == small


def test_formatting_with_many_attributes_is_not_tidy():
    few, many = (f"{dressed('a', 1, count)}<p>x" + "text " * 15_000 for count in (7, 100))

    assert is_tidy(few)
    assert not is_tidy(many)


@pytest.mark.parametrize("part", ["a < b", '<p a=">">', "<p a='<'>", "<p", "<p / a>", "<!-- > -->"])
def test_what_can_be_read_in_two_ways_is_not_tidy(part):
    assert not is_tidy(f"<html><body>{part}")


@pytest.mark.parametrize(
    "part",
    [
        "<p>text<br>",
        "<li><img src=x>",
        "<option value=1>one",
        "<div><span><b>text</div>",
        "<div><a href=x>text</a></div>",
        "<table><tr><td><font size=2>text<tr><td><b>text</table>",
        "<script>if (a<b && c<d) x='<div>'</script>",
        "<svg viewBox='0 0 1 1'><title>x</title><path d=\"M0 0\"/><g><circle r=1 /></g></svg>",
        "<ul><li>one<li>two</ul>",
    ],
)
def test_a_page_of_many_tags_is_tried_and_taken(part):
    text = f"<html><body>{part * 5000}"

    assert not is_cheap(text)
    assert can_be_parsed(text)


_BEGIN = [f"<{name} #>" for name in ("b", "a", "i", "font", "code", "B")]
_END = [f"</{name}>" for name in ("b", "a", "i", "font", "code")]
_OTHERS = [
    *("<p>", "<div>", "</div>", "<span>", "</span>", "<br>", "<img src=x>", "x"),
    *("<var>", "</sub>", "<wbr>"),
    *("<table>", "<td>", "</table>", "<li>", "<svg>", "<select>", "<button>", "</p>"),
    *("<!--", "-->", "<p a='", "'>", "<title>", "</title>", "<script>", "</script>"),
]


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(st.sampled_from(_BEGIN + _END + _OTHERS), max_size=12))
@example(parts=["<p>", "<b #>", "x"])
@example(parts=["<b #>", "x", "<b #>", "</b>", "<p>"])
@example(parts=["<a #>", "<span>", "<i #>", "</i>", "</span>", "</a>", "<p>", "x"])
@example(parts=["<div>", "<b #>", "<i #>", "</b>", "</div>", "x"])
@example(parts=["<B #>", "x", "</b>", "<p>"])
@example(parts=["<!--", "<b #>", "-->", "<b #>", "<p>", "x", "</b>"])
def test_no_page_repeats_more_formatting_than_was_counted(parts):
    text = numbered("".join(parts).replace("#", "a#"), 80)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markup, "MAX_REPEATED", 400)
        plain = is_tidy(text)
    if plain:
        begun, ended = (sum(part in tags for part in parts) for tags in (_BEGIN, _END))
        # An end tag in the wrong place may copy up to eight elements (HTML 13.2.6.4.7).
        made = LexborHTMLParser(text).css("b,a,i,font,code")
        assert len(made) <= 400 + 80 * (begun + 8 * ended)
