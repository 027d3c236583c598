"""Sitemaps and feeds, as sites write them and as they should not."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from skitter.fetch.html import feeds
from skitter.fetch.html.feeds import (
    MAX_TAG_BYTES,
    MAX_URLS,
    NotASitemap,
    SitemapEntry,
    read_sitemap,
)

URL = "https://shop.example/sitemaps/all.xml"
NEW_YEAR = 1767225600.0  # 2026-01-01, UTC


def read(body: str | bytes):
    return read_sitemap(body if isinstance(body, bytes) else body.encode(), url=URL)


def urls(body: str | bytes) -> list[str]:
    found = read(body)
    return [entry.url for entry in found.pages + found.sitemaps]


URLSET = """<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"
        xmlns:xhtml="http://www.w3.org/1999/xhtml">
  <url>
    <loc> https://shop.example/a?x=1&amp;y=2 </loc>
    <lastmod>2026-01-01</lastmod><changefreq>daily</changefreq><priority>0.8</priority>
    <image:image><image:loc>https://shop.example/a.png</image:loc></image:image>
    <xhtml:link rel="alternate" hreflang="de" href="https://shop.example/de/a"/>
  </url>
  <url><loc><![CDATA[/b]]></loc></url>
  <url><lastmod>2026-01-01</lastmod></url>
  <url><loc>mailto:me@shop.example</loc></url>
</urlset>"""
RSS = """<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
  <link>https://shop.example/</link><image><url>https://shop.example/logo.png</url></image>
  <item><atom:link rel="self" href="https://shop.example/self"/>
    <link>https://shop.example/news</link><pubDate>Thu, 01 Jan 2026 01:00:00 +0100</pubDate></item>
</channel></rss>"""
RDF = """<rdf:RDF xmlns:rdf="r" xmlns="http://purl.org/rss/1.0/"><channel><link>/x</link></channel>
  <item><link>https://shop.example/old</link></item></rdf:RDF>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://shop.example/"/>
  <entry><link rel="enclosure" href="/a.mp3"/><link href="/post"/>
    <updated>2026-01-01T00:00:00Z</updated></entry></feed>"""
INDEX = """<sitemapindex><sitemap><loc>https://shop.example/1.xml.gz</loc></sitemap>
  <sitemap><loc>https://shop.example/2.xml</loc></sitemap></sitemapindex>"""


def test_a_urlset_lists_pages_with_the_moment_and_the_weight_they_have():
    assert read(URLSET).pages == [
        SitemapEntry("https://shop.example/a?x=1&y=2", NEW_YEAR, 0.8),
        SitemapEntry("https://shop.example/b"),
    ]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("text", "pages"),
    [
        (RSS, [SitemapEntry("https://shop.example/news", NEW_YEAR)]),
        (RDF, [SitemapEntry("https://shop.example/old")]),
        (ATOM, [SitemapEntry("https://shop.example/post", NEW_YEAR)]),
        ("\ufeffhttps://shop.example/1\r\n# no\n\nhttp://shop.example/2",
         [SitemapEntry("https://shop.example/1"), SitemapEntry("http://shop.example/2")]),
    ],
    ids=["rss", "rdf", "atom", "text"],
)  # fmt: skip
def test_feeds_and_texts_list_pages_too_packed_or_not(pack, text, pages):
    assert read(pack(text.encode())).pages == pages


def test_an_index_lists_sitemaps_and_no_pages():
    found = read(INDEX)
    assert [one.url for one in found.sitemaps] == [
        "https://shop.example/1.xml.gz",
        "https://shop.example/2.xml",
    ]
    assert not found.pages


def test_other_encodings_are_read_as_they_say():
    assert urls(URLSET.replace("UTF-8", "UTF-16").encode("utf-16"))[1] == "https://shop.example/b"
    latin = "<?xml version='1.0' encoding='ISO-8859-1'?><urlset><url><loc>/é</loc></url></urlset>"
    assert urls(latin.encode("latin-1")) == ["https://shop.example/%C3%A9"]


def test_empty_lines_before_the_declaration_are_passed_over():
    assert urls(b"\xef\xbb\xbf\n\n " + URLSET.encode()) == urls(URLSET)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("<!DOCTYPE html><html></html>", "DOCTYPE"),
        ('<!DOCTYPE x [<!ENTITY a "aa">]><urlset><url><loc>/&a;</loc></url></urlset>', "DOCTYPE"),
        ("<html><body><a href=/>x</a></body></html>", "its root is <html>"),
        ("<p>no end", "its root is <p>"),
        ("< 3", "not XML"),
        ("<?xml version='1.0' encoding='klingon'?><urlset/>", "not XML"),
        ("Hello, this is a page.", "without URLs"),
    ],
)
def test_what_is_not_a_sitemap_is_refused_with_the_reason(body, why):
    with pytest.raises(NotASitemap, match=why):
        read(body)


@pytest.mark.parametrize(
    "body",
    [
        b"<urlset><url><loc>/1</loc></url><url><loc>/2",
        b"<urlset><url><loc>/1</loc></url><url></urlset>",
        b"<urlset><url><loc>/1</loc></url><url><loc>\xff\xfe</loc></url></urlset>",
        b"<urlset><url><loc>/1</loc></url>&nbsp;</urlset>",
    ],
)
def test_what_was_read_before_the_damage_counts(body):
    found = read(body)
    assert [one.url for one in found.pages] == ["https://shop.example/1"]
    assert "damaged" in found.cut


def test_a_broken_gzip_is_read_as_far_as_it_goes():
    body = gzip.compress(URLSET.encode(), 0)  # stored, so that a part of it is a part of the text
    found = read(body[: len(body) * 9 // 10])
    assert ([one.url for one in found.pages][:1], found.cut[:13]) == (
        ["https://shop.example/a?x=1&y=2"],
        "it is damaged",
    )
    assert "unpacked" in read(b"\x1f\x8b" + b"no gzip at all").cut


def test_no_more_urls_are_taken_than_the_protocol_allows():
    entry = "<url><loc>/x</loc></url>"
    assert read(f"<urlset>{entry * MAX_URLS}</urlset>").cut == ""
    found = read(f"<urlset>{entry * (MAX_URLS + 1)}</urlset>")
    assert len(found.pages) == MAX_URLS
    assert "more than 50,000" in found.cut


def test_an_index_names_no_more_sitemaps_than_we_would_fetch(monkeypatch):
    monkeypatch.setattr(feeds, "MAX_SITEMAPS", 1)
    found = read(INDEX)
    assert len(found.sitemaps) == 1
    assert "more than 1 sitemaps" in found.cut


def test_a_small_file_that_unpacks_to_a_huge_one_takes_little_memory():
    bomb = gzip.compress(b"<urlset><url><loc>/1</loc></url>" + b" " * 100_000_000)
    tracemalloc.start()
    found = read(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [one.url for one in found.pages] == ["https://shop.example/1"]
    assert "larger than" in found.cut
    assert peak < 2_000_000


@pytest.mark.parametrize(
    "body",
    [
        b"<urlset>" + b"<url><loc>x:</loc></url>" * 60_000,
        b"http://\n" * 60_000,
        b"<urlset>" + b"<a>" * 1_100_000,
        b"http://shop.example/" + b"\n" * 1_100_000,
    ],
)
def test_what_makes_no_sense_counts_towards_the_limits(body):
    """Or 50 kB of gzip would keep a worker busy for 20 seconds."""
    assert "more than" in read(gzip.compress(body)).cut


def test_an_endless_value_is_not_kept():
    body = b"<urlset><url><loc>" + b"x" * 10_000_000 + b"</loc></url></urlset>"
    tracemalloc.start()
    assert urls(body) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.parametrize(
    ("changed_at", "weight", "priority"),
    [
        (None, None, 0),
        (None, 0.5, 0),
        (None, 1.0, 100),
        (None, 0.0, -100),
        (NEW_YEAR, None, 100),
        (NEW_YEAR + 86_400, 0.5, 100),  # in the future
        (NEW_YEAR - 30 * 86_400, 0.5, 50),
        (NEW_YEAR - 3650 * 86_400, 0.5, 0),
    ],
)
def test_weight_and_recent_change_become_a_priority(changed_at, weight, priority):
    assert (
        SitemapEntry("https://shop.example/", changed_at, weight).priority(now=NEW_YEAR) == priority
    )


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "0000-00-00", "9" * 100, "-1"])
def test_a_date_or_weight_that_makes_no_sense_is_left_out(text):
    body = f"<urlset><url><loc>/1</loc><lastmod>{text}</lastmod><priority>{text}x</priority></url>"
    assert read(body).pages == [SitemapEntry("https://shop.example/1")]


@pytest.mark.parametrize("begins", [b"<urlset>", b"<urlset><url><loc>/a</loc></url>"])
@pytest.mark.parametrize("tag", [b"<!--", b"<url ", b"<?x "])
def test_a_tag_without_an_end_is_not_read_again_and_again(begins, tag):
    body = gzip.compress(begins + tag + b"x" * (40 * 2**20), 1)
    found = read(body)

    assert found.cut == "a tag in it is longer than 1,048,576 bytes"
    assert len(found.pages) == begins.count(b"<loc>")


@pytest.mark.parametrize(
    "filler", [b"<!--x-->", b"<a></a>", b"text ", b"<loc><![CDATA[x]]></loc>", "é".encode()]
)
def test_many_short_tags_are_not_a_long_one(filler):
    times = 3 * MAX_TAG_BYTES // len(filler)
    body = b"<urlset>" + filler * times + b"<url><loc>/a</loc></url></urlset>"

    assert urls(body) == ["https://shop.example/a"]
