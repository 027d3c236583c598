"""Forms are filled in and sent as browsers do it: HTML 4.10.21."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import rude
from skitter.errors import SkitterError
from skitter.frontier.jobs import create_job
from skitter.spider import Spider
from skitter.spider.page import BadForm, File, NoMatch, Page
from web import Answer, serve_web

URL = "https://shop.test/login?from=x#part"


def form(markup: str | bytes, **page):
    return Page.of(markup, url=URL, **page).form()


def sent(markup: str, **filled):
    """The pairs of a POST."""
    request = form(f"<form method=post>{markup}</form>").fill(**filled).submit()
    return parse_qsl(request.body.decode(), keep_blank_values=True)


@pytest.mark.parametrize(
    ("markup", "pairs"),
    [
        ("<input name=a value=1><input value=x><input name='' value=x>", [("a", "1")]),
        ("<input name=a><input type=hidden name=t value='x&y '>", [("a", ""), ("t", "x&y ")]),
        ("<input type=checkbox name=a><input type=checkbox name=b checked>", [("b", "on")]),
        (
            "<input type=radio name=a value=1 checked><input type=radio name=a value=2 checked>",
            [("a", "2")],
        ),
        ("<select name=a><option>x<option value=y>z</select>", [("a", "x")]),
        ("<select name=a><option disabled>x<option> y  z </select>", [("a", "y z")]),
        ("<select name=a><option selected>x<option selected>y</select>", [("a", "y")]),
        ("<select name=a multiple><option selected>x<option selected>y<option>z</select>",
         [("a", "x"), ("a", "y")]),
        ("<select name=a multiple><option>x</select><select name=b size=3><option>y</select>", []),
        ("<select name=a><optgroup disabled><option selected>x</optgroup><option>y</select>", []),
        ("<textarea name=a>\nline\nmore</textarea>", [("a", "line\r\nmore")]),
        ("<input name=a value=1 disabled><button name=b value=2 disabled>go</button>", []),
        (
            "<fieldset disabled><legend><input name=a></legend><input name=b>"
            "<legend><input name=c></legend></fieldset>",
            [("a", "")],
        ),
        ("<datalist><input name=a></datalist><input name=b>", [("b", "")]),
        ("<button name=b type=button>x</button><input type=reset name=r>", []),
        ("<button name=b value=1>x</button><input type=submit name=c value=2>", [("b", "1")]),
        ("<input type=image name=i src=x>", [("i.x", "0"), ("i.y", "0")]),
        ("<input type=hidden name=_charset_ value=x>", [("_charset_", "utf-8")]),
        ("<input name=a dirname=a.dir value=b>", [("a", "b"), ("a.dir", "ltr")]),
        ("<input name=a value='x\ny'><input type=hidden name=b value='x\ny'>",
         [("a", "xy"), ("b", "x\r\ny")]),
    ],
)  # fmt: skip
def test_what_an_untouched_form_sends(markup, pairs):
    assert sent(markup) == pairs


CHOICES = (
    "<input type=checkbox name=c value=1 checked><input type=checkbox name=c value=2>"
    "<input type=radio name=r value=1 checked><input type=radio name=r value=2>"
    "<select name=s><option value=1>One<option value=2>Two</select>"
)


@pytest.mark.parametrize(
    ("markup", "filled", "pairs"),
    [
        ("<input name=a value=1>", {"a": 2}, [("a", "2")]),
        ("<input type=hidden name=a value=0><input type=checkbox name=a value=1>",
         {"a": True}, [("a", "0"), ("a", "1")]),
        ("<input type=checkbox name=a checked>", {"a": False}, []),
        ("<input type=hidden name=a value=t><input name=a>", {"a": "x"}, [("a", "t"), ("a", "x")]),
        ("<input name=a><input name=a>", {"a": ["x", "y"]}, [("a", "x"), ("a", "y")]),
        (CHOICES, {"c": "2", "r": 2, "s": "Two"}, [("c", "2"), ("r", "2"), ("s", "2")]),
        (CHOICES, {"c": ["1", "2"], "s": "1"}, [("c", "1"), ("c", "2"), ("r", "1"), ("s", "1")]),
        ("<textarea name=a disabled></textarea>", {"a": "x"}, [("a", "x")]),
    ],
)  # fmt: skip
def test_what_a_filled_form_sends(markup, filled, pairs):
    assert sent(markup, **filled) == pairs


@pytest.mark.parametrize(
    ("filled", "words"),
    [
        ({"usr": "x"}, "no field 'usr' (it has c, r, s)"),
        ({"s": "Three"}, "'s' has no such option: use '1', '2'"),
        ({"r": 3}, "'r' has no such option"),
        ({"c": True}, "'c' has no such option: use '1', '2'"),
    ],
)
def test_what_a_form_does_not_have_is_an_error_that_names_what_it_has(filled, words):
    with pytest.raises(BadForm) as caught:
        form(f"<form>{CHOICES}</form>").fill(**filled)
    assert words in str(caught.value)


def test_names_that_are_no_words_and_fields_of_scripts():
    made = form("<form><input name='user[name]'></form>").fill({"user[name]": "x"}).add("t", "1")

    assert made.submit().url == "https://shop.test/login?user%5Bname%5D=x&t=1"
    assert made.fields == {"user[name]": "x"}


@pytest.mark.parametrize(
    ("markup", "base", "url"),
    [
        ("<form><input name=q value='a b~*ü'></form>", "", "https://shop.test/login?q=a+b%7E*%C3%BC"),
        ("<form action='/s?old=1#x'><input name=q></form>", "", "https://shop.test/s?q="),
        ("<form action=''></form>", "<base href='https://cdn.test/'>", "https://shop.test/login?"),
        ("<form action=find></form>", "<base href='https://cdn.test/a/'>",
         "https://cdn.test/a/find?"),
        ("<form action=a><button formaction=b name=n>x</button></form>", "",
         "https://shop.test/b?n="),
    ],
)  # fmt: skip
def test_a_get_form_replaces_the_query_of_its_action(markup, base, url):
    request = form(base + markup).submit()

    assert (request.method, request.url, request.body) == ("GET", url, b"")


def test_a_post_form_says_where_it_comes_from():
    markup = "<form method=POST action=/in><input name=a></form>"
    own, other = form(markup).submit(), form(markup.replace("/in", "https://b.test/")).submit()

    assert (own.method, own.url, own.body) == ("POST", "https://shop.test/in", b"a=")
    assert own.headers == {
        "content-type": "application/x-www-form-urlencoded",
        "origin": "https://shop.test",
        "referer": "https://shop.test/login?from=x",
    }
    assert other.headers["referer"] == "https://shop.test/"
    downgraded = form(markup.replace("/in", "http://shop.test/")).submit()
    assert (downgraded.headers["origin"], "referer" in downgraded.headers) == ("null", False)


def test_the_pressed_button_decides():
    markup = (
        "<form><input name=a><button name=b value=1>x</button>"
        "<button id=two name=b value=2 formmethod=post formenctype=text/plain>y</button></form>"
        "<button id=out>z</button>"
    )
    assert form(markup).submit().url.endswith("?a=&b=1")
    second = form(markup).submit(button="#two")
    assert (second.method, second.body) == ("POST", b"a=\r\nb=2\r\n")
    assert second.headers["content-type"] == "text/plain"
    for selector in ("#out", "input"):
        with pytest.raises(BadForm, match="not a submit button"):
            form(markup).submit(button=selector)


def test_fields_elsewhere_belong_to_the_form_that_they_name():
    markup = (
        "<input name=a form=f><form id=f><input name=b><input name=c form=g></form>"
        "<form id=g></form><input name=d>"
    )
    assert form(markup).submit().url.endswith("?a=&b=")
    assert Page.of(markup).form("#g").submit().url.endswith("?c=")


def test_a_form_within_a_table_has_the_fields_of_its_rows():
    markup = (
        "<table><tr><form action=/1><td><input name=a></td></form></tr>"
        "<tr><form action=/2 id=two><td><input name=b></td><td><input name=c></td></form></tr>"
    )
    assert form(markup).submit().url == "https://shop.test/1?a="
    assert Page.of(markup).form("#two").submit().url == "https://example.com/2?b=&c="


def test_the_encoding_is_that_of_the_form_or_of_the_page():
    latin = {"headers": {"content-type": "text/html; charset=iso-8859-1"}}
    markup = "<form><input name=a value='{}'></form>"
    page = markup.format("é€Ω").encode("cp1252", "xmlcharrefreplace")

    assert form(page, **latin).submit().url.endswith("?a=%E9%80%26%23937%3B")
    with_charset = markup.format("é").replace("<form", "<form accept-charset='nonsense utf-8'")
    assert form(with_charset.encode("cp1252"), **latin).submit().url.endswith("?a=%C3%A9")
    utf16 = markup.format("é").encode("utf-16")
    assert form(utf16, **latin).submit().url.endswith("?a=%C3%A9")


def test_files_are_sent_in_parts():
    markup = (
        "<form method=post enctype=multipart/form-data><input name='a\"b' value='1\n2'>"
        "<input type=file name=f><input type=file name=g><input type=file name=h></form>"
    )
    made = form(markup).fill(f=File(b"\x00\xff", 'x"y.png', "image/png"), g=b"text")
    request = made.submit()

    kind, _, boundary = request.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    parts = request.body.split(f"--{boundary}\r\n".encode())
    assert parts[1] == b'Content-Disposition: form-data; name="a%22b"\r\n\r\n12\r\n'
    assert parts[2] == (
        b'Content-Disposition: form-data; name="f"; filename="x%22y.png"\r\n'
        b"Content-Type: image/png\r\n\r\n\x00\xff\r\n"
    )
    assert b'name="g"; filename="file"\r\nContent-Type: application/octet-stream' in parts[3]
    assert b'name="h"; filename=""' in parts[4]
    assert request.body.endswith(f"--{boundary}--\r\n".encode())
    assert made.submit() == request  # a handler that runs again asks for the same


def test_what_is_not_a_form_is_refused():
    with pytest.raises(BadForm, match="matches <div>"):
        Page.of("<div></div>").form("div")
    with pytest.raises(NoMatch):
        Page.of("<p>").form()
    with pytest.raises(BadForm, match="dialog"):
        form("<form method=dialog></form>").submit()


def test_a_request_of_a_form_is_like_any_other():
    @Spider("s").page
    def account(page): ...

    request = form("<form method=post></form>").submit(
        account, priority=5, meta={"a": 1}, headers={"x-a": "1"}
    )

    assert (request.handler, request.priority, request.meta) == ("account", 5, {"a": 1})
    assert (request.headers["x-a"], request.depth, request.parent) == ("1", 1, URL)


PIECES = st.sampled_from(
    [
        *("<form>", "<form method=post>", "</form>", "<table>", "<tr>", "<input name=a>"),
        *("<input type=radio name=r checked>", "<select name=s>", "<option>", "<optgroup>"),
        *("<textarea name=t>", "<button>", "<fieldset disabled>", "<legend>", "<datalist>"),
        *("<input type=file name=f form=x>", "<template>"),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_no_markup_breaks_a_form(markup):
    with suppress(SkitterError):
        form(f"<form id=x>{markup}").submit()


async def test_a_form_gets_through_a_crawl(server, job):
    """Its fields arrive as a server reads them."""

    def shop(asked):
        if asked.path == "/":
            return Answer(
                "<form action=/find method=post><input name=q><input type=hidden name=t value=1>"
            )
        return Answer(f"found {asked.form}")

    frontier, found = await create_job(server, job, options=rude()), []
    async with serve_web(shop) as web:
        spider = Spider(job, start=[web.url()])

        @spider.page
        def search(page):
            yield page.form().fill(q="a&b=ü").submit(results)

        @spider.page
        def results(page):
            found.append(page.text)

        await web.crawl(frontier, spider)

    assert found == ["found {'q': 'a&b=ü', 't': '1'}"]


@pytest.mark.parametrize(
    ("markup", "names"),
    [
        ("<fieldset disabled><legend>@a</legend><legend>@b</legend>@c</fieldset>@d", "ad"),
        ("<fieldset disabled><p><legend>@a</legend></p>@b</fieldset>", ""),
        ("<fieldset disabled><legend>@a<fieldset disabled>@b</fieldset></legend></fieldset>", "a"),
        ("<fieldset disabled><fieldset><legend>@a</legend></fieldset></fieldset>@b", "b"),
        ("<fieldset disabled>" * 50 + "@a" * 50 + "</fieldset>" * 50 + "@b", "b"),
    ],
)
def test_what_a_fieldset_disables_and_what_its_legend_spares(markup, names):
    fields = re.sub("@(.)", r"<input name=\1>", markup)
    assert "".join(form(f"<form>{fields}</form>").fields) == names
