"""A page is parsed as it was sent, and lexbor never writes past the end of an element."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skitter.fetch.html.markup import parse_html
from skitter.spider.page import Page

ICON = '<svg viewBox="0 0 9 9"><title>Cart</title><path d=M0,0 /><path d="M1"></svg>'
FORM = "<select name=a><option>1<option selected>2</select>"
#: With lexbor's events, the C library finds its heap damaged and aborts.
PARSE_MANY = """
from skitter.spider.page import Page
from skitter.spider.default import visible_text

for number in range(1, 300):
    page = Page.of("<{0}>" + "<option selected>" * number + "<selectedcontent></{0}>" + {1!r})
    assert len(page.css("option[selected]")) == number + 1
    visible_text(page)
"""


@pytest.mark.parametrize("drawing", ["svg", "math"])
def test_options_inside_a_drawing_leave_the_heap_intact(drawing):
    words = [sys.executable, "-P", "-c", PARSE_MANY.format(drawing, FORM)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("markup", ["<svg><option selected>", FORM, "<svg><selectedcontent>"])
def test_what_is_selected_stays_as_it_was_sent(markup):
    assert "selected" in str(parse_html(markup).html)


def test_a_choice_is_not_copied_as_a_browser_would():
    page = Page.of("<select><selectedcontent></selectedcontent><option selected>x</select>")

    assert page.css_first("selectedcontent").text() == ""


def test_a_form_beside_a_drawing_keeps_its_choice():
    page = Page.of(f"{ICON}<form action=/go>{FORM}</form>")

    assert page.form().submit().url == "https://example.com/go?a=2"
