"""Whatever comes from outside, and what is done with it. Each target takes text that nobody meant
well: it returns, or raises one of the errors that it declares."""

# ruff: noqa: E501 - words of the languages, many to a line
from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from skitter.errors import BadURL, SkitterError, UsageError
from skitter.fetch.html.encoding import decode
from skitter.fetch.html.feeds import NotASitemap, read_sitemap
from skitter.fetch.http.exchange import retry_after_s
from skitter.fetch.http.guard import Guard, authority_of
from skitter.fetch.robots import RobotsRules
from skitter.fetch.session import Jar, parse_date
from skitter.frontier.feed import parse_message
from skitter.frontier.transport.messages import decode_request, encode
from skitter.model import Response
from skitter.patterns import shape_of
from skitter.settings import TABLES
from skitter.settings.sources import OPTIONS, parse_setting
from skitter.spider.page import Page
from skitter.urls import identify, join, join_all

NOW = 1_800_000_000.0
HERE = "https://shop.test/a/b?c=d"


@dataclass(frozen=True)
class Target:
    """`run` may raise `errors` and nothing else."""

    run: Callable[[Any], None]
    inputs: st.SearchStrategy[Any]
    errors: tuple[type[Exception], ...] = ()


def pieces(*words: str) -> st.SearchStrategy[str]:
    """Text that looks like the real thing for a while."""
    some = st.one_of(st.sampled_from(words), st.text(max_size=8), st.characters())
    repeated = st.builds(
        lambda one, times: one * times, some, st.sampled_from([1, 1, 1, 1, 2, 40, 500])
    )
    return st.lists(repeated, max_size=30).map("".join)


def raw(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """The same as bytes, in one of the encodings that the web has, or none at all."""
    codes = st.sampled_from(["utf-8", "utf-16", "latin-1", "utf-7"])
    packed = st.builds(lambda text, code: text.encode(code, "ignore"), strategy, codes)
    broken = st.builds(lambda a, b, at: a[: at % (len(a) + 1)] + b + a[at % (len(a) + 1) :],
                       packed, st.binary(max_size=20), st.integers(0, 10_000))  # fmt: skip
    return st.one_of(packed, broken, st.binary(max_size=400))


# --- URLs -----------------------------------------------------------------------------------------

URL = pieces(
    "http://", "https://", "HTTP:", "//", "/", "\\", "..", ".", "%2e", "%", "%00", "?", "#", "&", "=", ";",
    "a.test", "xn--", "xn--a", "127.1", "0x7f.1", "[::1]", "[", "]", "@", ":", "80", "65536", "user:pw@",
    "\t", "\n", "\u00a0", "ß", "İ", "\u202e", "\ud800", "utm_source=x", "PHPSESSID=1", "javascript:", "data:",
)  # fmt: skip


def check_url(url: str) -> None:
    found = identify(url)
    again = identify(found.url)
    assert (again.url, again.host) == (found.url, found.host), "one spelling"
    assert identify(found.canonical).canonical == again.canonical == found.canonical
    assert authority_of(found.url).host_port
    Guard().allows(found.url)
    shape_of(found.url)


def check_links(links: list[str]) -> None:
    base, *rest = [HERE, *links] if len(links) % 2 else links or [HERE]
    for found in join_all(base, rest):
        with suppress(BadURL):  # too long, as a rule
            identify(found)
    for link in rest:
        join(base, link)


# --- robots.txt, sitemaps -------------------------------------------------------------------------

ROBOTS = pieces(
    "User-agent: *\n", "user-agent:skitter\n", "User-agent: ", "Disallow: /", "Allow: /", "Disallow:", "\n", "\r", "\r\n",
    "*", "$", "/*/*/", "%2F", "Crawl-delay: 1", "Crawl-delay: nan", "Crawl-delay: -1e999", "Request-rate: 1/0", "Request-rate: 1/5m 0600-0845",
    "Sitemap: /x.xml\n", "Content-Usage: /a train-ai=n\n", "#", ":", "\x00", "\ufeff", "Visit-time: ",
)  # fmt: skip


def check_robots(body: bytes) -> None:
    rules = RobotsRules.from_response(200, body, at=NOW)
    again = RobotsRules.from_bytes(rules.to_bytes())
    for url in (HERE, "https://shop.test/", "https://shop.test/" + "a/" * 500 + "%2a$"):
        assert rules.allows(url, "Skitter/0.1") == again.allows(url, "Skitter/0.1")
        rules.explain(url, "Skitter/0.1")
        rules.usage(url, "Skitter/0.1")
    delay_s = rules.crawl_delay_s("Skitter/0.1")
    assert delay_s is None or delay_s > 0
    assert all(isinstance(one, str) for one in rules.sitemaps)


SITEMAP = pieces(
    "<urlset>", "<url>", "<loc>", "https://a.test/", "</loc>", "</url>", "</urlset>", "<sitemapindex>", "<sitemap>",
    "<lastmod>", "2026-01-01", "2026-13-45T99:99:99+99:99", "<priority>", "nan", "1e999", "<feed>", "<entry>", "<link href='", "<rss>",
    "<item>", "<?xml version='1.0' encoding='", "utf-16", "cp037", "'?>", "<!DOCTYPE a [", "<!ENTITY a '&a;&a;'>", "&a;", "]>", "<![CDATA[",
    "]]>", "<!--", "&#0;", "\x00", "<a:b xmlns:a='", "\x1f\x8b\x08",
)  # fmt: skip


def check_sitemap(body: bytes) -> None:
    read_sitemap(body, url="https://shop.test/sitemap.xml")


# --- messages, settings ---------------------------------------------------------------------------

FIELDS = [
    "url",
    "method",
    "headers",
    "body",
    "json",
    "meta",
    "priority",
    "handler",
    "timeout_s",
    "depth",
    "lane",
    "x",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | URL,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
MESSAGE = st.one_of(
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8).map(
        lambda one: json.dumps(one).encode()
    ),
    raw(
        pieces(
            "{",
            "}",
            '"url":',
            '"https://a.test/"',
            "[" * 2000,
            '"meta":',
            "null",
            "1e999",
            '"\\ud800"',
            ",",
        )
    ),
    raw(URL),
)


def check_message(message: bytes) -> None:
    request = parse_message(message)
    identify(request.url)  # first, as those do who take messages
    assert decode_request(encode(request)) == request


SETTING = st.builds(
    "{}={}".format,
    st.one_of(st.sampled_from(sorted(OPTIONS)), st.text(max_size=20)),
    st.one_of(
        pieces(
            "true",
            "none",
            "nan",
            "-inf",
            "1e400",
            "0",
            "9" * 400,
            "[",
            "]",
            "'",
            '"',
            ":",
            ",",
            "=",
            "\n",
            "\x00",
        ),
        URL,
    ),
)


def check_setting(text: str) -> None:
    key, value = parse_setting(text)
    table, _, name = key.partition(".")
    TABLES[table](**{name: value})


# --- headers --------------------------------------------------------------------------------------

COOKIE = pieces(
    "a=b", "=", ";", "; ", "Path=/", "Domain=", "shop.test", ".test", "co.uk", "Max-Age=", "-1", "9" * 30, "Expires=", "Wed, 21 Oct 2026 07:28:00 GMT",
    "31 Feb 0000", "99:99:99", "Secure", "HttpOnly", "__Host-", "__Secure-", "SameSite=", "\t", "\x00", "\x7f", ",", '"', "²", "\u0661",
)  # fmt: skip


def check_cookies(lines: list[str]) -> None:
    jar = Jar()
    for url in (HERE, "http://[::1]:80/", "http://a.shop.test/"):
        headers = tuple(("set-cookie", line) for line in lines)
        jar.take(Response(url=url, status=200, headers=headers), now=NOW)
        for target in (url, HERE):
            header = jar.header_for(target, now=NOW)
            assert not set(header) & set("\r\n\0"), "it would break the request"
    for line in lines:
        parse_date(line)
        retry_after_s(line, now=NOW)


# --- pages ----------------------------------------------------------------------------------------

HTML = pieces(
    "<html>", "<base href='", "<a href='", "'>", "</a>", "<a rel=nofollow href=", "<form action='", "<form method=dialog>", "<input name=a type=", "file",
    "image", "<select name=s>", "<option selected>", "<textarea name=t>", "<button name=b value=1>", "</form>", "<meta name=robots content='", "noindex",
    "<meta charset='", "utf-16", "<meta http-equiv=refresh content='0;url=", "<link rel=canonical href='", "<table>", "<b>", "<p>", "<svg>", "<math>",
    "<template>", "<frameset><frame src='", "<!--", "-->", "<![CDATA[", "<script>", "</script>", "<title>", "&#x110000;", "&amp", "\x00", "<", ">", "'", '"',
)  # fmt: skip
TYPES = st.sampled_from(
    [
        "text/html",
        "text/html; charset=",
        "text/html; charset=utf-7",
        "application/json",
        "text/xml",
        "",
        "\x00",
    ]
)


def check_page(given: tuple[bytes, str]) -> None:
    body, kind = given
    page = Page.of(body, url=HERE, headers={"content-type": kind})
    decode(body, (("content-type", kind),))
    for look in (
        lambda: page.links(frames=True),
        lambda: page.links(skip_nofollow=True, keep_fragment=True),
        lambda: (page.base, page.directives, page.usage, page.canonical, page.nofollow_links()),
        lambda: page.css("a, form input[name]"),
        lambda: page.css_first("title").text(),
        lambda: page.form().fill({"a": "1"}).submit(),
        lambda: page.form().submit(),
        page.json,
    ):
        with suppress(SkitterError):  # the next may still work
            look()
    check_links(page.links() if page.is_html else [])


TARGETS: dict[str, Target] = {
    "url": Target(check_url, URL, (BadURL,)),
    "links": Target(check_links, st.lists(URL, max_size=6)),
    "robots": Target(check_robots, raw(ROBOTS)),
    "sitemap": Target(check_sitemap, raw(SITEMAP), (NotASitemap,)),
    "message": Target(check_message, MESSAGE, (UsageError,)),
    "setting": Target(check_setting, SETTING, (UsageError,)),
    "cookies": Target(check_cookies, st.lists(COOKIE, min_size=1, max_size=5)),
    "page": Target(check_page, st.tuples(raw(HTML), TYPES), (SkitterError,)),
}
