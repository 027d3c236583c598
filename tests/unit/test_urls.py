"""The URL rules: what is fetched, what counts as the same page, what is refused and in which words.

Hypothesis looks for the URL that breaks a promise; the tables say what the promises are.
"""

from __future__ import annotations

from collections import Counter
from string import ascii_letters, digits

import ada_url
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skitter.errors import BadURL
from skitter.urls import (
    MAX_URL_BYTES,
    TRACKING,
    Canonical,
    Target,
    fingerprint,
    identify,
    join,
    join_all,
    shard_of,
)
from unit.growth import growth

# Hypothesis fails an example that takes 0.2 s, which a busy machine makes of any example.
patient = settings(deadline=None)
UNRESERVED = set((ascii_letters + digits + "-._~").encode())


def canonical(url: str, **rules: bool) -> str:
    return identify(url, Canonical(**rules)).canonical


def refusal(url: object) -> BadURL:
    with pytest.raises(BadURL) as caught:
        identify(url)  # type: ignore[arg-type]
    return caught.value


# --- what is fetched ------------------------------------------------------------------------------


def test_a_url_is_fetched_as_found_and_remembered_in_its_canonical_form() -> None:
    found = "HTTPS://Shop.Example:443/a/../List?b=2&utm_source=mail&a=%7e1#reviews"
    assert identify(found) == Target(
        url="https://shop.example/List?b=2&utm_source=mail&a=%7e1",
        canonical="https://shop.example/List?a=~1&b=2",
        host="shop.example",
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://example.com:80/", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("https://EXAMPLE.com:8443/", "example.com:8443"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("https://BÜCHER.example/", "xn--bcher-kva.example"),
        ("https://ex%61mple.com/", "example.com"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://2130706433:81/", "127.0.0.1:81"),
        ("http://[2001:DB8:0::1]:8080/", "[2001:db8::1]:8080"),
        ("http:\\\\example.com\\a", "example.com"),
    ],
)
def test_the_host_is_one_politeness_key_however_it_is_spelled(url: str, host: str) -> None:
    assert identify(url).host == host


# --- what is the same page ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("HTTP://Example.COM/a", "http://example.com/a", id="scheme and host case"),
        pytest.param("https://example.com", "https://example.com/", id="empty path"),
        pytest.param("http://example.com:80/a", "http://example.com/a", id="default http port"),
        pytest.param("https://example.com:443/a", "https://example.com/a", id="default https port"),
        pytest.param("https://bücher.de/", "https://xn--bcher-kva.de/", id="punycode"),
        pytest.param("http://127.1/", "http://127.0.0.1/", id="IPv4 shorthand"),
        pytest.param("http://[::0:1]/", "http://[::1]/", id="IPv6 zeros"),
        pytest.param("http://@example.com/", "http://example.com/", id="empty user name"),
        pytest.param("http://e.com/a/./b/../c", "http://e.com/a/c", id="dot segments"),
        pytest.param("http://e.com/a/%2e%2E/c", "http://e.com/c", id="escaped dot segments"),
        pytest.param("http://e.com\\a\\b", "http://e.com/a/b", id="backslashes"),
        pytest.param("http://e.com/%7Ejoe", "http://e.com/~joe", id="escaped unreserved"),
        pytest.param("http://e.com/%c3%a9", "http://e.com/%C3%A9", id="case of escapes"),
        pytest.param("http://e.com/é?é", "http://e.com/%C3%A9?%C3%A9", id="non-ASCII"),
        pytest.param("http://e.com/a b", "http://e.com/a%20b", id="space inside"),
        pytest.param("http://e.com/100%", "http://e.com/100%25", id="stray percent sign"),
        pytest.param("http://e.com/a#top", "http://e.com/a", id="fragment"),
        pytest.param("http://e.com/a#?b=1", "http://e.com/a", id="fragment with a question mark"),
        pytest.param("http://e.com/a?", "http://e.com/a", id="empty query"),
        pytest.param("http://e.com/a?&", "http://e.com/a", id="query of separators only"),
        pytest.param("http://e.com/?b=1&a=2", "http://e.com/?a=2&b=1", id="order of parameters"),
        pytest.param("http://e.com/?a=1&&b=2&", "http://e.com/?a=1&b=2", id="empty parameters"),
        pytest.param("http://e.com/?a=1&b=3&a=2", "http://e.com/?b=3&a=1&a=2", id="repeated name"),
        pytest.param("http://e.com/?%61=1&b=2", "http://e.com/?b=2&a=1", id="escaped name"),
        pytest.param("http://e.com/?utm_source=x", "http://e.com/", id="only tracking"),
        pytest.param("http://e.com/?a&gclid=x&b=2", "http://e.com/?a&b=2", id="tracking inside"),
        pytest.param("http://e.com/?utm%5Fterm=x&a=1", "http://e.com/?a=1", id="escaped tracking"),
        pytest.param("http://e.com/?fbclid", "http://e.com/", id="tracking without a value"),
        pytest.param("http://e.com/a?PHPSESSID=1a2b&b=2", "http://e.com/a?b=2", id="session"),
        pytest.param("http://e.com/?sid=0123456789abcdef0", "http://e.com/", id="session by value"),
        pytest.param("http://e.com/a;jsessionid=1A2B?b", "http://e.com/a?b", id="session in path"),
        pytest.param("http://e.com/a;JSESSIONID=1/b", "http://e.com/a/b", id="session inside path"),
    ],
)
def test_these_are_the_same_page(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("http://e.com/", "https://e.com/", id="scheme"),
        pytest.param("http://e.com/", "http://www.e.com/", id="www"),
        pytest.param("http://e.com/", "http://e.com:8080/", id="port"),
        pytest.param("http://e.com/A", "http://e.com/a", id="case of the path"),
        pytest.param("http://e.com/a", "http://e.com/a/", id="trailing slash"),
        pytest.param("http://e.com/a//b", "http://e.com/a/b", id="double slash"),
        pytest.param("http://e.com/a%2Fb", "http://e.com/a/b", id="escaped slash"),
        pytest.param("http://e.com/a%3Fb", "http://e.com/a?b", id="escaped question mark"),
        pytest.param("http://e.com/a%2541", "http://e.com/a%41", id="escaped percent sign"),
        pytest.param("http://e.com/a%%34%31", "http://e.com/aA", id="escape made of escapes"),
        pytest.param("http://e.com/?a=1%262", "http://e.com/?a=1&2", id="escaped ampersand"),
        pytest.param("http://e.com/?a+b", "http://e.com/?a%2Bb", id="escaped plus"),
        pytest.param("http://e.com/?a=1&a=2", "http://e.com/?a=2&a=1", id="order of values"),
        pytest.param("http://e.com/?a=", "http://e.com/?a", id="empty value"),
        pytest.param("http://e.com/?A=1", "http://e.com/?a=1", id="case of a name"),
        pytest.param("http://e.com/?ref=1", "http://e.com/", id="a word that sites use themselves"),
        pytest.param("http://e.com/?xutm_a=1", "http://e.com/", id="prefix in the middle"),
        pytest.param("http://e.com/?a=gclid", "http://e.com/?a=", id="tracking name as a value"),
        pytest.param("http://e.com/gclid=1", "http://e.com/", id="tracking name in the path"),
        pytest.param("http://e.com/?sid=17", "http://e.com/", id="a short sid may be a story"),
        pytest.param("http://e.com/?sid=a-story-about-sessions", "http://e.com/", id="sid, words"),
        pytest.param("http://e.com/a;v=2", "http://e.com/a", id="parameters in the path"),
    ],
)
def test_these_are_different_pages(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


def test_sorting_can_be_turned_off() -> None:
    assert canonical("http://e.com/?b=1&a=2", sort_query=False) == "http://e.com/?b=1&a=2"


def test_tracking_parameters_can_be_kept() -> None:
    url = "http://e.com/?a=1&gclid=x&utm_source=y"
    assert canonical(url, drop_tracking=False) == url


def test_a_query_that_no_rule_touches_keeps_its_empty_parameters() -> None:
    url = "http://e.com/?b&&a"
    assert canonical(url, sort_query=False, drop_tracking=False) == url


def test_a_kept_fragment_tells_pages_apart_and_stays_in_the_url() -> None:
    target = identify("http://e.com/?b&a#!/%7ejoe", Canonical(keep_fragment=True))
    assert target.url == "http://e.com/?b&a#!/%7ejoe"
    assert target.canonical == "http://e.com/?a&b#!/~joe"


def test_an_empty_fragment_is_dropped_even_where_fragments_are_kept() -> None:
    assert identify("http://e.com/#", Canonical(keep_fragment=True)).url == "http://e.com/"


@pytest.mark.parametrize("name", sorted(TRACKING))
def test_every_tracking_name_is_written_as_it_would_be_found(name: str) -> None:
    assert canonical(f"http://e.com/?{name}=1") == "http://e.com/"


@pytest.mark.parametrize("part", ["http://e.com/x{}y", "http://e.com/?x{}y"])
def test_only_unreserved_characters_are_decoded_and_the_other_escapes_upper_cased(
    part: str,
) -> None:
    for code in range(256):
        kept = chr(code) if code in UNRESERVED else f"%{code:02X}"
        for spelling in (f"%{code:02x}", f"%{code:02X}", f"%{code:02x}".swapcase()):
            assert canonical(part.format(spelling)) == part.format(kept)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (None, "it is of type NoneType: pass a str"),
        (b"http://e.com/", "it is of type bytes: pass a str"),
        (7, "it is of type int: pass a str"),
        ("", "it is empty: pass an absolute URL"),
        (" ", "it begins with a space: strip it"),
        (" http://e.com/", "it begins with a space: strip it"),
        ("http://e.com/ ", "it ends with a space: strip it"),
        ("\thttp://e.com/", "a control character (U+0009 at position 0): remove it"),
        ("http://e.com/\n", "a control character (U+000A at position 13): remove it"),
        ("http://e.com/a\nb", "a control character (U+000A at position 14): remove it"),
        ("http://e.com/\x00", "a control character (U+0000 at position 13): remove it"),
        ("http://e.com/\x7f", "a control character (U+007F at position 13): remove it"),
        ("http://e.com/\ud800", "a lone surrogate, which UTF-8 cannot write: decode it"),
        ("/about", "it has no scheme: add https://"),
        ("about.html", "it has no scheme: add https://"),
        ("//e.com/a", "it has no scheme: add https://"),
        ("?page=2", "it has no scheme: add https://"),
        ("#top", "it has no scheme: add https://"),
        ("example.com", "it has no scheme: add https://"),
        ("example.com:8080/a", "it has no scheme: add https://"),
        ("localhost:8080", "it has no scheme: add https://"),
        ("://e.com", "it has no scheme: add https://"),
        ("ftp://e.com/", "its scheme is 'ftp': only http and https can be fetched"),
        ("mailto:joe@e.com", "its scheme is 'mailto': only http and https"),
        ("javascript:void(0)", "its scheme is 'javascript': only http and https"),
        ("data:text/plain,x", "its scheme is 'data': only http and https"),
        ("httpx://e.com/", "its scheme is 'httpx': only http and https"),
        ("http://", "it has no host: write one after the scheme"),
        ("https:", "it has no host: write one after the scheme"),
        ("https:///", "it has no host: write one after the scheme"),
        ("http://?q=1", "it has no host: write one after the scheme"),
        ("http://#top", "it has no host: write one after the scheme"),
        ("http://:80/", "it has no host: write one after the scheme"),
        ("http://joe@/", "it has no host: write one after the scheme"),
        ("http://[::1/", "it does not parse: check the host name"),
        ("http://e.com:99999/", "it does not parse: check the host name"),
        ("http://e.com:port/", "it does not parse: check the host name"),
        ("http://a b/", "it does not parse: check the host name"),
        ("http://1.2.3.4.5/", "it does not parse: check the host name"),
        ("http://a^b/", "it does not parse: check the host name"),
        ("http://joe@e.com/", "credentials in URLs are not stored: use a header"),
        ("http://joe:pw@e.com/", "credentials in URLs are not stored: use a header"),
        ("http://:pw@e.com/", "credentials in URLs are not stored: use a header"),
    ],
    ids=ascii,
)
def test_a_bad_url_is_refused_with_the_reason_and_the_remedy(url: object, words: str) -> None:
    assert words in str(refusal(url))


@pytest.mark.parametrize(
    "url",
    [
        "http://joe:secret@e.com/",
        "http://joe:secret@e.com:99999/",
        "HTTP:joe:secret@e.com/",
        "http:\\\\joe:secret@e.com/",
        " http://joe:secret@e.com/",
        "http://joe:secret@e.com/\n",
        "http:/\t/joe:secret@e.com/",
        "http://joe:sec@ret:secret@e.com/",
        "ftp://joe:secret@e.com/",
        "//joe:secret@e.com/",
        "joe:secret@e.com/",
        b"http://joe:secret@e.com/",
    ],
)
def test_a_password_does_not_reach_the_error(url: object) -> None:
    error = refusal(url)
    assert "secret" not in f"{error} {error.url} {error.reason}"
    assert "e.com" in error.url


def test_an_at_sign_outside_the_host_is_no_password() -> None:
    assert identify("http://e.com/@joe?to=joe@e.com").host == "e.com"


def test_an_error_about_a_surrogate_can_be_printed() -> None:
    error = refusal("http://e.com/\udc80")
    assert f"{error} {error.url}".encode()


def test_a_url_of_8192_bytes_is_the_longest() -> None:
    longest = "http://e.com/".ljust(MAX_URL_BYTES, "a")
    assert identify(longest).url == longest
    assert "it is 8,193 bytes, the limit is 8,192" in refusal(longest + "a").reason


def test_the_length_is_counted_in_bytes_of_utf_8() -> None:
    assert "it is 10,013 bytes, the limit" in refusal("http://e.com/" + "é" * 5000).reason


def test_a_url_that_is_too_long_only_when_percent_encoded_is_refused_too() -> None:
    words = "it is 9,013 bytes when percent-encoded, the limit is 8,192"
    assert words in refusal("http://e.com/" + "é" * 1500).reason
    # One is long only in its canonical form, one only as it is fetched.
    assert words in refusal("http://e.com/" + "%" * 3000).reason
    assert words in refusal("http://e.com/?utm_a=" + "é" * 1498 + "aaaaa").reason


def test_a_long_error_is_cut() -> None:
    assert len(str(refusal("http://e.com/" + "a" * 1_000_000))) < 300


# --- promises for any text ------------------------------------------------------------------------

NASTY = st.text(
    "aAzé中ßİ\u3002\u00ad\u200d\u0301\u0663 .%2e5F4/\\?&=;+#@:[]{}|^'\"<>`~-_xn\t\n\x7f\ud800"
)
PIECES = st.sampled_from(
    [
        *("https://", "http://", "HTTP:", "//", "ftp:", "e.com", "E.com:80", "bücher.de", "[::1]"),
        *("xn--", "user@", ":443", "/", "/../", "%2e", "%2E%2e", "%", "%%", "%4", "%41", "%e9"),
        *("?", "&", "=", "#", "a=1", "b", "utm_", "utm_a=x", "gclid", "utm%5Fa", " ", "é"),
    ]
)
URLISH = st.one_of(
    st.text(),
    NASTY,
    st.builds("{}{}".format, st.sampled_from(["http://", "https:", "http://e.com/"]), NASTY),
    st.builds("https://{}/{}?{}#{}".format, st.text(), st.text(), st.text(), st.text()),
    st.lists(PIECES, max_size=12).map("".join),
    st.lists(PIECES, max_size=12).map(lambda pieces: "http://e.com/" + "".join(pieces)),
)
RULES = st.builds(
    Canonical, sort_query=st.booleans(), drop_tracking=st.booleans(), keep_fragment=st.booleans()
)


def understood(url: str, rules: Canonical) -> Target | None:
    try:
        return identify(url, rules)
    except BadURL:
        return None


@patient
@given(URLISH, RULES)
@example("http://e.com/%%34%31", Canonical())
@example("http://e.com/%2%65%2%65/", Canonical())
@example("http://e.com/?utm_a&", Canonical(sort_query=False))
@example("http://e.com/?&&#", Canonical(keep_fragment=True))
@example("http://e.com/" + "é" * 2000, Canonical())
def test_any_text_is_either_refused_or_has_one_stable_canonical_form(
    url: str, rules: Canonical
) -> None:
    target = understood(url, rules)
    if target:
        assert identify(target.url, rules) == target
        itself = Target(target.canonical, target.canonical, target.host)
        assert identify(target.canonical, rules) == itself


@patient
@given(URLISH, RULES)
def test_what_is_stored_is_printable_ascii_and_the_host_is_the_one_in_the_url(
    url: str, rules: Canonical
) -> None:
    target = understood(url, rules)
    if target:
        for text in (target.url, target.canonical, target.host):
            assert all("!" <= character <= "~" for character in text)
            assert 0 < len(text) <= MAX_URL_BYTES
        scheme = target.url.partition(":")[0]
        assert target.url.startswith(f"{scheme}://{target.host}/")
        assert target.canonical.startswith(f"{scheme}://{target.host}/")
        assert target.host == target.host.lower()


@patient
@given(st.text(min_size=1, max_size=8))
@example("\u00ad")
@example("İ")
@example("faß.de")
@example("\u0661")
def test_no_host_is_ever_outside_ascii(host: str) -> None:
    target = understood(f"http://{host}/", Canonical())
    assert target is None or target.host.isascii()


PARAMETERS = st.dictionaries(
    st.text("abcXYZ-%41é", min_size=1).map(lambda name: canonical(f"http://e.com/?{name}")[14:]),
    st.integers(),
).map(lambda query: [f"{name}={value}" for name, value in query.items()])


@patient
@given(PARAMETERS.flatmap(lambda pieces: st.tuples(st.just(pieces), st.permutations(pieces))))
def test_parameters_of_different_names_may_come_in_any_order(
    orders: tuple[list[str], list[str]],
) -> None:
    one, other = (f"http://e.com/?{'&'.join(pieces)}" for pieces in orders)
    assert canonical(one) == canonical(other)


# --- fingerprints ---------------------------------------------------------------------------------

PAGE = "https://example.com/"


def test_a_fingerprint_never_changes_between_releases() -> None:
    # These are keys in people's servers: a new value would make every crawl begin again.
    assert fingerprint(PAGE) == "746778796280228525"
    assert fingerprint(PAGE, method="POST", body=b"a=1", unique="u") == "9076156942993340034"


@patient
@given(st.text(st.characters(codec="utf-8")), st.text(), st.binary(), st.text())
def test_a_fingerprint_is_63_bits_in_decimal(
    url: str, method: str, body: bytes, unique: str
) -> None:
    printed = fingerprint(url, method=method, body=body, unique=unique)
    assert 0 <= int(printed) < 2**63
    assert printed == str(int(printed))


def test_get_is_get_in_any_case() -> None:
    assert fingerprint(PAGE, method="get") == fingerprint(PAGE, method="GET") == fingerprint(PAGE)


def test_method_body_and_unique_each_make_another_request() -> None:
    variants = [
        fingerprint(PAGE + url, method=method, body=body, unique=unique)
        for url in ("", "a", "aa")
        for method in ("GET", "POST", "PUT", "POSTa", "HEAD")
        for body in (b"", b"a", b"aa", b"POST", b"0:", b"1:a")
        for unique in ("", "a", "aa", "POST", "0:", "1:a")
    ]
    assert len(set(variants)) == len(variants)


PARTS = st.tuples(
    st.text("a:01", max_size=4), st.text("A:01", max_size=4), st.text("a:01", max_size=4)
)


@patient
@given(PARTS, PARTS, st.binary(max_size=4), st.binary(max_size=4))
def test_text_cannot_be_moved_from_one_part_of_a_request_to_another(
    one: tuple[str, str, str], other: tuple[str, str, str], body: bytes, other_body: bytes
) -> None:
    def number(parts: tuple[str, str, str], body: bytes) -> str:
        url, method, unique = parts
        return fingerprint(url, method=method, body=body, unique=unique)

    same = (one, body) == (other, other_body)
    assert (number(one, body) == number(other, other_body)) is same


def test_a_request_cannot_pose_as_a_plain_get_of_its_own_description() -> None:
    described = f"{len(PAGE)}:{PAGE}4:POST0:"
    assert fingerprint(described) != fingerprint(PAGE, method="POST")


def test_a_hundred_thousand_pages_have_as_many_fingerprints() -> None:
    assert len({fingerprint(f"{PAGE}{number}") for number in range(100_000)}) == 100_000


# --- shards ---------------------------------------------------------------------------------------


def test_the_shard_of_a_host_never_changes_between_releases() -> None:
    # The shard is part of the key: another answer would lose a host's queue.
    hosts = ("example.com", "xn--bcher-kva.example", "127.0.0.1:8080")
    assert [shard_of(host, 16) for host in hosts] == [9, 6, 8]


def test_one_shard_is_shard_0() -> None:
    assert shard_of("example.com", 1) == 0


@pytest.mark.parametrize("shards", [2, 3, 8, 16, 64])
@pytest.mark.parametrize("name", ["host{}.example", "{}.example.com", "10.0.{}.1:8080"])
def test_hosts_spread_evenly_over_the_shards(name: str, shards: int) -> None:
    sizes = Counter(shard_of(name.format(number), shards) for number in range(shards * 500))
    assert set(sizes) == set(range(shards))
    assert max(sizes.values()) < 700


# --- links ----------------------------------------------------------------------------------------

BASE = "https://example.com/shop/list?page=2"


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ("item/1", "https://example.com/shop/item/1"),
        ("../about", "https://example.com/about"),
        ("/about", "https://example.com/about"),
        ("?page=3", "https://example.com/shop/list?page=3"),
        ("#top", "https://example.com/shop/list?page=2#top"),
        ("", BASE),
        ("//cdn.example/x", "https://cdn.example/x"),
        ("HTTP://Other.example", "http://other.example/"),
        ("https:item", "https://example.com/shop/item"),
        ("  item \n", "https://example.com/shop/item"),
        ("it\n\tem", "https://example.com/shop/item"),
        ("a b", "https://example.com/shop/a%20b"),
        ("\\about", "https://example.com/about"),
    ],
)
def test_a_link_is_resolved_as_a_browser_would(link: str, url: str) -> None:
    assert join(BASE, link) == url
    assert identify(url)


@pytest.mark.parametrize(
    "link",
    [
        *("mailto:joe@e.com", "javascript:void(0)", "JavaScript:x()", "data:text/plain,x", "tel:1"),
        *("ftp://e.com/", "file:///etc/passwd", "blob:https://e.com/1", "about:blank"),
        *("httpx://e/", "http://", "http://[", "http://e.com:99999/", "//a b/", "\ud800"),
        "x" * (MAX_URL_BYTES + 1),
    ],
    ids=lambda link: ascii(link[:30]),
)
def test_a_link_that_http_cannot_fetch_is_none(link: str) -> None:
    assert join(BASE, link) is None


def test_a_link_on_a_page_without_a_usable_url_is_none_unless_it_is_absolute() -> None:
    assert join("about:blank", "item") is None
    assert join("not a url", "item") is None
    assert join("about:blank", "https://e.com/a") == "https://e.com/a"


@patient
@given(URLISH, URLISH)
def test_joining_any_two_texts_gives_none_or_an_http_url(base: str, link: str) -> None:
    joined = join(base, link)
    assert joined is None or joined.startswith(("http://", "https://"))


BASES = [
    "https://A.test",
    "http://a.test:80/x/y?q#f",
    "https://u:p@a.test:8443/",
    "https://[::1]/",
    "x:y",
]


@given(
    base=st.sampled_from(BASES),
    link=st.from_regex(r"/[A-Za-z0-9._~/?=&-]{0,30}", fullmatch=True),
)
def test_the_quick_way_to_join_a_plain_path_is_the_parsers_way(base, link):
    try:
        expected = ada_url.join_url(base, link)
    except ValueError:
        expected = None

    joined = join(base, link)

    assert joined == (expected if expected and expected.startswith("http") else None)


RELATIVE = st.lists(
    st.sampled_from(
        ["a", "1", "/", ".", "..", "?", "#", ":", "\\", " ", "\t", "@", "%2e", "http:", "//", "é"]
    ),
    max_size=6,
).map("".join)


@patient
@given(
    base=st.sampled_from([*BASES, "http://a.test/b\\c", "http://a.test/b/..", "http://a.test?b/c"]),
    links=st.lists(RELATIVE | URLISH, max_size=5),
)
def test_joining_many_is_joining_one_by_one(base, links):
    one_by_one = [url.partition("#")[0] for link in links if (url := join(base, link))]

    assert join_all(base, links) == list(dict.fromkeys(one_by_one))
    assert join_all(base, links) == list(dict.fromkeys(one_by_one))  # and from memory


def test_a_link_that_is_resolved_from_memory_belongs_to_its_own_page():
    for page in (
        "https://a.test/0",
        "https://a.test/x/1",
        "https://a.test/y/2",
        "https://b.test/x/1",
    ):
        links = ["n", "./../m", "?q", "", "/r", "//c.test/n"]
        assert join_all(page, links) == [join(page, link) for link in links]


def test_a_link_too_long_to_be_kept_is_resolved_all_the_same():
    long = "/" + "a" * 1000
    assert join_all("https://a.test/x", [long, "/" + "a" * 10_000]) == ["https://a.test" + long]


@patient
@given(
    origin=st.sampled_from(
        [
            *(
                "http://a.test",
                "https://a.test:8443",
                "http://a.test:80",
                "http://127.1",
                "http://é",
            ),
            *("http://A.test", "http://u@a.test", "http://[::1]", "http:/a.test", "http://a b"),
        ]
    ),
    path=st.from_regex(r"/[A-Za-z0-9._~/?=&#%-]{0,30}", fullmatch=True),
)
def test_the_quick_way_to_identify_a_plain_url_is_the_parsers_way(origin, path):
    try:
        target = identify(origin + path)
    except BadURL:
        return
    parsed = ada_url.URL(origin + path)

    assert target.url == parsed.href.partition("#")[0]
    assert target.host == parsed.host


@pytest.mark.parametrize(
    "make",
    [
        lambda size: "x:" + " " * size,
        lambda size: "x:" + "/" * size,
        lambda size: "http:" + "/\\" * size,
        lambda size: "http://" + "@" * size,
        lambda size: ":" * size,
        lambda size: "a" * size + ":@",
    ],
    ids=["spaces", "slashes", "backslashes", "ats", "colons", "letters"],
)
def test_the_cost_of_refusing_a_text_grows_as_its_length(make):
    def refuse(size: int) -> None:
        with pytest.raises(BadURL):
            identify(make(size))

    assert growth(refuse, 5000) < 9
