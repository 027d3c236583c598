"""Cookies as browsers keep them: RFC 6265bis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.fetch.session import MAX_BYTES, MAX_COOKIES, CookieTarget, Jar, parse, parse_date
from skitter.model import Response

NOW = 1_700_000_000.0
HERE = "https://www.shop.co.uk/a/b"


def jar_of(*lines: str, url: str = HERE, jar: Jar | None = None, now: float = NOW) -> Jar:
    jar = jar or Jar()
    headers = tuple(("set-cookie", line) for line in lines)
    jar.take(Response(url=url, status=200, headers=headers), now=now)
    return jar


def sent(jar: Jar, url: str = HERE, *, now: float = NOW) -> str:
    return jar.header_for(url, now=now)


@pytest.mark.parametrize(
    ("line", "url", "header"),
    [
        ("a=b", HERE, "a=b"),
        (" a = b ; Path=/", HERE, "a=b"),
        ("a=b=c; HttpOnly; SameSite=None", HERE, "a=b=c"),
        ("just", HERE, "just"),
        ('a="q"', HERE, 'a="q"'),
        ("a=", HERE, "a="),
        # whose
        ("a=b", "https://shop.co.uk/a/", ""),
        ("a=b; Domain=shop.co.uk", "https://shop.co.uk/a/", "a=b"),
        ("a=b; Domain=.SHOP.co.uk", "https://x.y.shop.co.uk/a/", "a=b"),
        ("a=b; Domain=shop.co.uk; Domain=", "https://shop.co.uk/a/", ""),
        ("a=b; Domain=www.shop.co.uk", "https://in.www.shop.co.uk/a/", "a=b"),
        ("a=b; Domain=shop.co.uk", "https://notshop.co.uk/a/", ""),
        ("a=b", "http://WWW.shop.co.uk.:8080/a/", "a=b"),
        # where
        ("a=b", "https://www.shop.co.uk/a", "a=b"),
        ("a=b", "https://www.shop.co.uk/ab", ""),
        ("a=b; Path=/a/b", "https://www.shop.co.uk/a/b/c", "a=b"),
        ("a=b; Path=/a/b", "https://www.shop.co.uk/a/bc", ""),
        ("a=b; Path=x", "https://www.shop.co.uk/a/", "a=b"),
        ("a=b; Path=/", "https://www.shop.co.uk?x", "a=b"),
        ("a=b; Secure", HERE, "a=b"),
        ("a=b; Secure", "http://www.shop.co.uk/a/", ""),
        # until when
        ("a=b; Max-Age=0", HERE, ""),
        ("a=b; Max-Age=-1; Expires=Fri, 01 Jan 2100 00:00:00 GMT", HERE, ""),
        ("a=b; Max-Age=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT", HERE, ""),
        ("a=b; Max-Age=99999999999999999999999", HERE, "a=b"),
        ("a=b; Expires=nonsense", HERE, "a=b"),
        # prefixes
        ("__Secure-a=b; Secure", HERE, "__Secure-a=b"),
        ("__secure-a=b", HERE, ""),
        ("__Host-a=b; Secure; Path=/", HERE, "__Host-a=b"),
        ("__Host-a=b; Secure", HERE, ""),
        ("__Host-a=b; Secure; Path=/; Domain=www.shop.co.uk", HERE, ""),
        ("=__Host-a=b; Secure; Path=/", HERE, ""),
        # not at all
        ("", HERE, ""),
        ("=", HERE, ""),
        ("a=b\x00c", HERE, ""),
        ("a=b\ud800", HERE, ""),
        ("a=" + "b" * 4096, HERE, ""),
    ],
)
def test_a_cookie_is_sent_where_it_belongs(line, url, header):
    assert sent(jar_of(line), url) == header


@pytest.mark.parametrize("domain", ["co.uk", "uk", "other.co.uk", "x.www.shop.co.uk", "bücher.de"])
def test_a_host_cannot_set_cookies_for_others(domain):
    assert not jar_of(f"a=b; Domain={domain}").cookies


def test_a_public_suffix_and_an_address_may_set_their_own():
    for host in ("github.io", "127.0.0.1", "[::1]"):
        url = f"https://{host}/"
        assert sent(jar_of(f"a=b; Domain={host.strip('[]')}", url=url), url) == "a=b"
    jar = jar_of("a=b; Domain=github.io", url="https://github.io/")
    assert sent(jar, "https://you.github.io/") == ""
    assert not jar_of("a=b; Domain=0.0.1", url="https://127.0.0.1/").cookies


def test_longer_paths_and_older_cookies_come_first():
    jar = jar_of("new=1; Path=/", now=NOW + 1)
    jar_of("old=1; Path=/", "deep=1; Path=/a/b", jar=jar)

    assert sent(jar) == "deep=1; old=1; new=1"
    jar_of("old=2; Path=/", jar=jar, now=NOW + 5)  # it keeps its age
    assert sent(jar) == "deep=1; old=2; new=1"


def test_cookies_expire():
    jar = jar_of("a=b; Max-Age=10", "c=d; Expires=Tue, 14 Nov 2023 22:13:30 GMT", "e=f")

    assert sent(jar) == "a=b; c=d; e=f"
    assert sent(jar, now=NOW + 10) == "e=f"
    assert jar_of("a=b; Max-Age=1000000000").cookies.popitem()[1].expires == NOW + 400 * 86_400


def test_over_http_nobody_replaces_a_cookie_of_https():
    jar = jar_of("a=b; Secure; Domain=shop.co.uk; Path=/")
    jar_of("a=evil; Path=/", "a=evil; Domain=shop.co.uk; Path=/", "b=c; Path=/",
           url="http://www.shop.co.uk/", jar=jar)  # fmt: skip

    assert sent(jar) == "a=b; b=c"


def test_a_jar_tells_what_changed():
    jar = jar_of("a=1", "b=1")
    loaded = Jar(cookies=dict(jar.cookies))
    jar_of("a=1", "b=2", "c=3", "a=; Max-Age=0", "never=; Max-Age=0", jar=loaded, now=NOW + 9)

    assert {one.name: one.value for one in loaded.added.values()} == {"b": "2", "c": "3"}
    assert loaded.removed == {"www.shop.co.uk;/a;a"}
    jar_of("a=again", jar=loaded)
    assert not loaded.removed
    unchanged = Jar(cookies=dict(jar.cookies))
    jar_of("a=1", "b=1", jar=unchanged, now=NOW + 9)
    assert not unchanged.added


def test_a_flood_drives_out_the_oldest():
    jar = Jar()
    for n in range(10_000):
        jar_of(f"n{n}=x", jar=jar, now=NOW + n)
    assert len(jar.cookies) == MAX_COOKIES
    assert sent(jar, now=NOW + 10_000).startswith(f"n{10_000 - MAX_COOKIES}=x")
    jar = jar_of(*(f"n{n}={'x' * 4000}" for n in range(100)))
    assert sum(one.size_bytes for one in jar.cookies.values()) <= MAX_BYTES
    assert not jar_of("a=" + "x" * 2**20, "b=c; Path=/" + "x" * 2**20).added.keys() - {
        "www.shop.co.uk;/a;b"
    }


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
        ("Sun Nov  6 08:49:37 1994", 784_111_777),
        ("6 november 94 8:49:37", 784_111_777),
        ("Wed, 01-Jan-69 00:00:00", 3_124_224_000),
        ("Sun, 06 Nov 1994", None),
        ("Sun, 31 Feb 1994 08:49:37", None),
        ("Sun, 06 Nov 1600 08:49:37", None),
        ("Sun, 06 Nov 1994 24:49:37", None),
        ("", None),
    ],
)
def test_dates_are_read_in_any_order(text, at):
    assert parse_date(text) == at


@given(st.text(max_size=200), st.text(max_size=40))
def test_no_header_breaks_it(line, host):
    cookie = parse(line, CookieTarget(host, "/", secure=True), now=NOW)
    if cookie:
        sent(Jar({cookie.key: cookie}), "https://a.test/")
    parse_date(line)
