"""No document that a browser shows may fail: html5lib-tests, and what a fuzzer makes of them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needs import need
from skitter.spider import HandlerOutput, default_spider, run_handler
from skitter.spider import default as default_module
from skitter.spider.default import Format
from skitter.spider.page import Page

URL = "https://a.test/"
DATA = re.compile(rb"^#data\n(.*?)\n?^#errors", re.MULTILINE | re.DOTALL)
DOCTYPES = [
    '<!DOCTYPE html SYSTEM "about:legacy-compat">',
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/x.dtd">',
    '<!DOCTYPE html PUBLIC "">',
    "<!DOCTYPE>",
    "<?xml version='1.0'?>",
]


@cache
def documents() -> list[bytes]:
    folder = Path(need("html5lib-tests")).parents[1]
    return [
        found[1] for file in folder.rglob("*.dat") for found in DATA.finditer(file.read_bytes())
    ]


async def describe(body: bytes, format: Format = Format.TEXT) -> HandlerOutput:
    page = Page.of(body, url=URL, headers={"content-type": "text/html; charset=utf-8"})
    return await run_handler(default_spider("crawl", [URL], format=format), page)


def assert_is_whole(outcome: HandlerOutput) -> None:
    assert outcome.rejected == []
    assert len(outcome.items) == 1


@pytest.mark.parametrize("format", [*Format])
async def test_every_document_of_html5lib_tests_is_described(format):
    assert len(documents()) > 1000
    for body in documents():
        assert_is_whole(await describe(body, format))


@pytest.mark.parametrize("doctype", DOCTYPES)
async def test_every_doctype_is_one(doctype):
    html = f"{doctype}<html><head><title>T</title></head><body><p>text<a href=/x>x</a>"

    outcome = await describe(html.encode())

    assert_is_whole(outcome)
    assert (outcome.items[0]["title"], outcome.items[0]["text"]) == ("T", "textx")
    assert [link.url for link in outcome.requests] == [f"{URL}x"]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
async def test_no_mixture_of_documents_fails(data):
    pieces = st.one_of(st.sampled_from(documents()), st.binary(max_size=20))
    body = b"".join(data.draw(st.lists(pieces, max_size=6)))

    assert_is_whole(await describe(body))


async def test_when_the_text_cannot_be_made_out_the_links_are_followed(monkeypatch):
    def fail(markup):
        raise RuntimeError("a document that nobody thought of")

    monkeypatch.setattr(default_module, "visible_text", fail)

    outcome = await describe(b"<title>T</title><a href=/x>x</a>", Format.RAW_TEXT)

    assert [link.url for link in outcome.requests] == [f"{URL}x"]
    [rejected] = outcome.rejected
    assert (rejected.field, rejected.item["links"]) == ("text", [f"{URL}x"])


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<p>x<title>late</title>", "late"),
        ("<svg><title>picture</title></svg><title>page</title>", "page"),
        ("<svg><g><title>picture</title></g></svg>", None),
        ("<title>one</title><title>two</title>", "one"),
        ("<body><div><title> deep\n title </title></div>", "deep title"),
    ],
)
async def test_the_title_is_the_first_of_the_document_wherever_it_is(html, title):
    [item] = (await describe(html.encode())).items

    assert item["title"] == title


async def test_frames_are_followed_and_the_links_for_who_has_none():
    html = (
        b"<frameset><frame src=/frame><noframes><body><a href=/plain>x</a></body></noframes>"
        b"</frameset>"
    )

    outcome = await describe(html)

    assert [link.url for link in outcome.requests] == [f"{URL}frame", f"{URL}plain"]


def test_frames_are_links_only_for_those_who_ask():
    page = Page.of("<iframe src=/i></iframe><a href=/a>x</a>", url=URL)

    assert page.links() == [f"{URL}a"]
    assert page.links(frames=True) == [f"{URL}i", f"{URL}a"]
    assert [one.url for one in page.follow_all(frames=True)] == [f"{URL}i", f"{URL}a"]
