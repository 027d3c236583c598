"""What would make lexbor write past the end of an element never reaches it."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skitter.fetch.markup import harmless, parse_html
from skitter.fetch.nesting import tidy_tags
from skitter.page import Page

#: Inside these, elements are HTML again.
HTML_INSIDE = ("foreignobject", "desc", "title", "mi", "mo", "mn", "ms", "mtext", "annotation-xml")
ICON = '<svg viewBox="0 0 9 9"><title>Cart</title><path d=M0,0 /><path d="M1"></svg>'
FORM = "<select name=a><option>1<option selected>2</select>"


@pytest.mark.parametrize(
    "markup",
    [
        "<svg><option selected>",
        "<svg><OPTION SeLected>",
        "<math><option a=b selected=''>",
        "<svg><selectedcontent>",
        "<svg><!-- </svg> --><option selected>",
        "<svg a='</svg>'><option selected>",
        "<svg a=b/><option selected></svg>",
        "<svg><foreignObject><p></svg></p></foreignObject><option selected>",
        "<svg><title><p></svg></p></title><option selected>",
        "<svg></\u017fvg><option selected>",
        "<svg></svg\x0b><option selected>",
        "<svg><![CDATA[</svg>]]><option selected>",
        f"{ICON}<svg><option selected>",
    ],
)
def test_an_option_that_may_be_inside_a_drawing_is_not_selected(markup):
    assert b"selected" not in harmless(markup.encode()).lower()
    assert not parse_html(markup * 500).css("[selected], selectedcontent")


@pytest.mark.parametrize(
    "markup",
    [
        f"{ICON}{FORM}",
        f"{FORM}{ICON}",
        f"<svg/>{FORM}",
        f"<svg class='x' hidden />{FORM}",
        f"<svg><style>.a {{ fill: red }}</style><g><circle r=1></g></svg>{FORM}",
        f"<svg><option></svg>{FORM.replace('selected', '')}",
        f"<p>svg, math, selected</p>{FORM}",
    ],
)
def test_what_is_apart_stays_as_it_is(markup):
    assert harmless(markup.encode()) == markup.encode()


def test_a_form_beside_a_drawing_keeps_its_choice():
    page = Page.of(f"{ICON}<form action=/go>{FORM}</form>")

    assert page.form().submit().url == "https://example.com/go?a=2"


PIECES = (
    *(
        "<svg>",
        "</svg>",
        "<svg/>",
        "<svg a=b/>",
        "<SVG x='>'>",
        "<math>",
        "</math>",
        "<mi>",
        "</mi>",
    ),
    *("<option selected>", "<option>", "</option>", "<select>", "</select>", "<selectedcontent>"),
    *("<foreignObject>", "</foreignObject>", "<title>", "</title>", "<desc>", "</desc>", "<g>"),
    *("<!--", "-->", "<![CDATA[", "]]>", '"', "'", "<p>", "</p>", "<div a='", "<path d=1>", "x"),
    *(
        "<style>",
        "</style>",
        "<script>",
        "</script>",
        "<textarea>",
        "</textarea>",
        "<table>",
        "<td>",
    ),
    *("<template>", "</template>", "<b>", "<plaintext>", "<noscript>", "</noscript>", ICON, FORM),
)


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("<svg><p><svg></p></svg><option selected>")
def test_no_selected_option_is_inside_a_drawing(markup):
    tree = parse_html(markup, tidy_tags(markup))
    for element in tree.css("option[selected], selectedcontent"):
        above = element.parent
        while above is not None and above.tag not in HTML_INSIDE:
            assert above.tag not in ("svg", "math"), markup
            above = above.parent
