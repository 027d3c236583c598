"""What a page asks of robots and of those who use it."""

from __future__ import annotations

import pytest

from skitter.spider.page import Page
from skitter.spider.page.signals import MAX_USES, has_signals, spell


def page(html: str = "", *headers: str, robots: str = "") -> Page:
    made = Page.of(html, headers=dict(one.split(": ", 1) for one in headers))
    made.robots_usage = robots
    return made


@pytest.mark.parametrize(
    ("html", "header", "directives"),
    [
        ("", "", set()),
        ("<meta name=ROBOTS content='NoIndex , follow'>", "", {"noindex", "follow"}),
        ("<meta name=skitter content=nofollow><meta name=other content=noindex>", "", {"nofollow"}),
        ("<meta name=robots content=none>", "", {"none", "noindex", "nofollow"}),
        ("", "noindex, nofollow", {"noindex", "nofollow"}),
        ("", "skitter: noindex", {"noindex"}),
        ("", "otherbot: noindex, nofollow", set()),
        ("", "max-snippet: 10, nofollow", {"max-snippet: 10", "nofollow"}),
        ("<meta name=robots content=noai>", "noindex", {"noai", "noindex"}),
    ],
)
def test_directives_for_all_and_for_us(html, header, directives):
    found = page(html, *([f"X-Robots-Tag: {header}"] if header else []))
    assert found.directives == directives


@pytest.mark.parametrize(
    ("html", "headers", "robots", "usage"),
    [
        ("", [], "", {}),
        ("", ["Content-Usage: train-ai=n, search=y;x=1"], "", {"train-ai": False, "search": True}),
        ("", ["Content-Usage: train-ai=y"], "train-ai=n", {"train-ai": False}),
        ("", [], "train-ai=n", {"train-ai": False}),
        ("", ["X-Robots-Tag: noai"], "", {"train-ai": False}),
        ("<meta name=robots content='noai, noimageai'>", [], "",
         {"train-ai": False, "train-ai-images": False}),
        ("", ["tdm-reservation: 1"], "", {"tdm": False}),
        ("<meta name=tdm-reservation content=0>", [], "", {"tdm": True}),
        ("<meta name=tdm-reservation content=0>", ["TDM-Reservation: 1"], "", {"tdm": False}),
        ("", ["Content-Usage: <b>=n, =n, train-ai=maybe, x" + "y" * 99 + "=n"], "", {}),
    ],
)  # fmt: skip
def test_uses_that_are_allowed_or_reserved(html, headers, robots, usage):
    found = page(html, *headers, robots=robots)
    assert found.usage == usage
    if usage and not robots:
        assert has_signals(found.headers, found.body)


def test_a_page_cannot_name_uses_without_end():
    header = ", ".join(f"use-{n}=n" for n in range(1000))
    assert len(page("", f"Content-Usage: {header}").usage) == MAX_USES


def test_nearly_all_pages_are_passed_over_without_parsing():
    plain = page("<title>A book</title><meta name=robots content=index>")
    assert not has_signals(plain.headers, plain.body)
    assert plain._tree is None


def test_the_record_is_one_word():
    assert spell({"train-ai": False, "search": True}) == "train-ai=n,search=y"


@pytest.mark.parametrize(
    ("html", "canonical"),
    [
        ("", None),
        ("<link rel=canonical href=/a>", "https://example.com/a"),
        ("<base href=/b/><link rel='CANONICAL x' href=c>", "https://example.com/b/c"),
        ("<link rel=canonical href=javascript:x>", None),
        ("<link rel=canonical>", None),
    ],
)
def test_the_canonical_page(html, canonical):
    assert page(html.replace("CANONICAL", "canonical")).canonical == canonical


def test_links_that_are_marked_everywhere_they_are():
    found = page(
        "<a rel='nofollow x' href=/1>1</a><a href=/2 rel=nofollow>2</a><a href=/2>2</a>"
        "<a href=/3#x rel=NoFollow>3</a><a href=/4>4</a>"
    )
    assert found.nofollow_links() == {"https://example.com/1", "https://example.com/3"}


def test_what_is_not_html_says_nothing_but_in_its_headers():
    found = page("{}", "Content-Type: application/json", "X-Robots-Tag: noindex")
    assert found.directives == {"noindex"}
    assert (found.canonical, found.nofollow_links()) == (None, set())
