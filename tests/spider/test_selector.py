"""Long selectors on pages made to stall them: the same elements as ever, in bounded time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.spider.page import Page
from skitter.spider.page.selectors import Selector, TooComplex

SHOP = """<main id=m><section class='list new'>
  <h2>Books</h2> <article><h3 title='a > b, c'><a href=/1>One</a></h3><p>1</p></article>
  <article><h3><a href=/2 class=x>Two</a></h3><p>2</p><p>3</p></article></section>
  <section><div><div><a href=/3>Three</a></div></div></section></main>"""
#: A minute to a lifetime in the parser itself, on a few kilobytes.
STALLING = [
    ("<div>" * 500, "y div div div"),
    ("<div>" * 900, "y div div, y div div div div"),
    ("<div>" * 150 + "<a>", "y div div div div div a"),
    ("<i></i>" * 1500, "y ~ i ~ i ~ i"),
    ("<div>" * 400 + "<i></i>" * 400, "y div div ~ i ~ i"),
]


def page(html: str) -> Page:
    return Page.of(html.encode(), url="https://a.test/", headers={"content-type": "text/html"})


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("html", "selector"), STALLING)
def test_no_page_stalls_a_selector(html, selector):
    found = page(html)
    assert found.css(selector) == []
    assert found.css_first(selector, None) is None


@pytest.mark.timeout(30)
@pytest.mark.parametrize("selector", ["div:has(div:has(y))", "div:not(y div div div)"])
def test_what_cannot_be_taken_apart_is_refused_by_its_name(selector):
    with pytest.raises(TooComplex, match=re.escape(f"the selector {selector!r} takes too much")):
        page("<div>" * 900).css(selector)
    page("<div>" * 20).css(selector)


def test_counting_in_an_endless_list_is_refused_by_its_name_and_in_ordinary_ones_not():
    """Half a megabyte took minutes, though each element alone is quick. What looks at other
    elements, and tables of many rows, are as ever."""
    found = page("<p>" * 150_000)
    for selector in (
        "p:nth-child(2)",
        "main p:nth-last-of-type(odd)",
        "[x]:nth-child(2), p:has(~ b)",
    ):
        for select in (found.css, found.css_first):
            with pytest.raises(TooComplex, match=re.escape(f"the selector {selector!r} takes too")):
                select(selector)
    assert found.css("b:nth-child(2)") == []
    table = page("<table>" + "<tr><td>1<td>2<td>3" * 20_000)
    assert len(table.css("td:nth-child(2)")) == 20_000


@pytest.mark.parametrize(
    "selector",
    [
        "main section article a",
        "#m .list article > h3 > a",
        "main section div div a, main article h3 a",
        "article h3[title='a > b, c'] a",
        'main h3[title="a > b, c"] > a[href="/1"]',
        "h2 ~ article ~ article p + p",
        "main article:not(.x, .y) a:is(.x, .z)",
        "main section :has(> a) a",
        "main * * a",
        "  main   section\n article  a  ",
        r"main .a\ b a",
    ],
)
def test_an_ordinary_selector_finds_the_same_either_way(selector):
    found = page(SHOP)
    expected = [one.mem_id for one in found.tree.css(selector)]
    assert [one.mem_id for one in Selector(selector).find(found.tree)] == expected
    assert [one.mem_id for one in found.css(selector)] == expected


TREES = st.recursive(
    st.sampled_from(["<i></i>", "<b></b>text", "<s></s>"]),
    lambda inner: st.builds(
        lambda name, parts: f"<{name}>{''.join(parts)}</{name}>",
        st.sampled_from(["div", "section", "ul"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=20,
)
PARTS = st.lists(
    st.tuples(
        st.sampled_from(" >+~"),
        st.sampled_from(["div", "section", "ul", "i", "b", "*", "i:first-child"]),
    ),
    min_size=1,
    max_size=4,
)


@given(TREES, PARTS)
def test_step_by_step_is_what_the_parser_means(html, parts):
    selector = "div" + "".join(f"{sign}{part}" for sign, part in parts)
    tree = page(html).tree
    expected = [one.mem_id for one in tree.css(selector)]
    assert [one.mem_id for one in Selector(selector).find(tree)] == expected
