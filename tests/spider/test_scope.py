"""Scope: where a crawl may go, as a table."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.errors import BadOption, BadURL
from skitter.patterns import compile_pattern
from skitter.settings import Limits
from skitter.settings.widening import widening
from skitter.spider import Allowed, Fence, Refused, Scope
from skitter.urls import identify, join

SEED = "https://shop.example/"
PAGE = "https://elsewhere.example/list"


def reason(fence: Fence, url: str, **where) -> str | None:
    verdict = fence.allows(url, **where)
    return verdict.reason if isinstance(verdict, Refused) else None


@pytest.mark.parametrize(
    ("scope", "url", "refused"),
    [
        # The seeds' hosts, with and without www., on any scheme.
        (Scope(), "https://shop.example/a?b=c", None),
        (Scope(), "http://www.shop.example/", None),
        (Scope(), "HTTPS://SHOP.example", None),
        (Scope(), "https://shop.example:443/", None),
        (Scope(), "https://shop.example:8443/", "neither a seed's"),
        (Scope(), "https://m.shop.example/", "neither a seed's"),
        (Scope(), "https://notshop.example/", "neither a seed's"),
        (Scope(), "https://shop.example.evil.org/", "neither a seed's"),
        (Scope(), "https://evil.org\\@shop.example/", "neither a seed's"),
        (Scope(), "https://evil.org/?https://shop.example/", "neither a seed's"),
        (Scope(), "https://shop.example@evil.org/", "credentials"),
        # Subdomains, when asked for.
        (Scope(subdomains=True), "https://a.b.shop.example/", None),
        (Scope(subdomains=True), "https://notshop.example/", "neither a seed's"),
        (Scope(subdomains=True), "https://example/", "neither a seed's"),
        # Hosts that are named take the place of the seeds'.
        (Scope(hosts=["Other.example"]), "https://www.other.example/", None),
        (Scope(hosts=["other.example"]), SEED, "not among the allowed hosts"),
        (Scope(hosts=["bücher.example"]), "https://xn--bcher-kva.example/", None),
        (Scope(hosts=["localhost:8000"]), "http://localhost:8000/", None),
        (Scope(hosts=["localhost:8000"]), "http://localhost:9000/", "host localhost:9000"),
        (Scope(hosts=["other.example:443"]), "https://other.example/", None),
        (Scope(hosts=["*"]), "https://anywhere.example/", None),
        (Scope(hosts=[]), SEED, "not among the allowed hosts"),
        # Patterns: globs over the URL, over path and query, regular expressions.
        (Scope(include=["/books/*"]), "https://shop.example/books/1", None),
        (Scope(include=["/books/*"]), "https://shop.example/x/books/1", "no include pattern"),
        (Scope(include=["/books/*"]), "https://shop.example/books", "no include pattern"),
        (Scope(include=["*/books/*"]), "https://shop.example/x/books/1", None),
        (Scope(include=["/a", "/b"]), "https://shop.example/b", None),
        (Scope(include=["/a?b=*"]), "https://shop.example/a?b=1", None),
        (Scope(include=["/a?b=*"]), "https://shop.example/axb=1", "no include pattern"),
        (Scope(include=["/a*b*c"]), "https://shop.example/a-b-b-c-c", None),
        (Scope(include=[r"re:/\d+$"]), "https://shop.example/x/42", None),
        (Scope(include=[r"re:/\d+$"]), "https://shop.example/42/x", "no include pattern"),
        (Scope(exclude=["*?sort=*"]), "https://shop.example/?sort=up", "exclude pattern '*?sort"),
        (Scope(exclude=["*.pdf"]), "https://shop.example/a.pdf?x", None),
        (Scope(include=["/a/*"], exclude=["/a/b*"]), "https://shop.example/a/bc", "exclude"),
        # What cannot be fetched is refused, in the words of the URL rules.
        (Scope(hosts=["*"]), "mailto:a@b.c", "its scheme is 'mailto'"),
        (Scope(hosts=["*"]), "/relative", "no scheme"),
        (Scope(hosts=["*"]), "https://a.example/\n", "control character"),
        (Scope(hosts=["*"]), "http://1.2.3.4.5/", "does not parse"),
        (Scope(hosts=["*"]), "http://a.example:99999/", "does not parse"),
        (Scope(hosts=["*"]), f"http://a.example/{'x' * 9000}", "the limit is"),
        (Scope(hosts=["*"]), None, "pass a str"),
    ],
)
def test_a_link_is_allowed_or_refused_with_the_reason(scope, url, refused):
    said = reason(scope.fence([SEED]), url)
    assert said is None if refused is None else refused in (said or "")


@pytest.mark.parametrize(
    ("scope", "url", "allowed"),
    [
        (Scope(), "https://www.elsewhere.example/x", True),
        (Scope(), "https://m.elsewhere.example/x", False),
        (Scope(subdomains=True), "https://m.elsewhere.example/x", True),
        (Scope(), SEED, True),
        (Scope(), "https://third.example/", False),
        (Scope(hosts=["shop.example"]), "https://elsewhere.example/x", False),
    ],
)
def test_a_link_may_stay_on_the_host_of_its_page_unless_hosts_are_named(scope, url, allowed):
    """So that seeds may come from a generator or a feed, which no worker knows in advance."""
    verdict = scope.fence([SEED]).allows(url, parent=PAGE)
    assert isinstance(verdict, Allowed if allowed else Refused)


@pytest.mark.parametrize(
    ("hosts", "patterns", "url", "refused"),
    [
        ("docs.example", None, "https://www.docs.example/a", None),
        ("www.docs.example", None, "http://docs.example/a", None),
        ("docs.example", None, "https://m.docs.example/a", "neither a seed's"),
        ("*.docs.example", None, "https://m.docs.example/a", None),
        ("*.docs.example", None, "https://docs.example/a", None),
        ("*.docs.example", None, "https://notdocs.example/a", "neither a seed's"),
        ("docs.example", None, "https://shop.example/a", None),  # it adds, and takes nothing away
        ("docs.example", None, "https://docs.example/private/a", "exclude pattern"),
        ("docs.example", "/private/b*", "https://docs.example/private/b1", None),
        (None, "/private/b*", "https://shop.example/private/b1", None),
        (None, "/private/b*", "https://shop.example/private/a1", "exclude pattern"),
        (None, "/private/b*", "https://docs.example/private/b1", "neither a seed's"),
        ("docs.example", None, "https://shop.example@docs.example/", "credentials"),
    ],
)
def test_an_operator_adds_hosts_and_patterns_to_a_scope(hosts, patterns, url, refused):
    fence, also = Scope(exclude=["/private/*"]).fence([SEED]), widening(hosts, patterns)
    assert (refused or "") in (reason(fence, url, also=also) or "")
    assert (reason(fence, url, also=also) is None) == (refused is None)


@pytest.mark.parametrize("hosts", ["*", "*.", "a.*", "https://a.test/", "a.test/x", "u@a.test"])
def test_what_is_added_to_a_scope_are_hosts_with_a_name(hosts):
    with pytest.raises(BadOption, match="also_hosts must be hosts such as"):
        Limits(also_hosts=hosts)
    with pytest.raises(BadOption, match="also_include"):
        Limits(also_include="re:(")


def test_a_crawl_of_the_seeds_alone_follows_no_link():
    fence = Scope().fence([SEED], seeds_only=True)
    assert reason(fence, SEED, depth=0) is None
    assert reason(fence, SEED, depth=1) == "max_depth is 0: no link is followed"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("include", "/books/*"),
        ("exclude", ["re:("]),
        ("include", [""]),
        ("include", [7]),
        ("hosts", "shop.example"),
        ("hosts", ["shop.example/path"]),
        ("hosts", ["a b"]),
        ("hosts", [""]),
    ],
)
def test_a_scope_that_cannot_work_is_refused_when_it_is_made(option, value):
    with pytest.raises(BadOption, match=option):
        Scope(**{option: value})


def test_a_glob_with_many_stars_stays_fast_on_a_long_url():
    pattern = compile_pattern("*a" * 12 + "*b")
    began = time.process_time()
    assert not pattern.search("https://x.example/" + "a" * 8000)
    assert time.process_time() - began < 1


@settings(deadline=None)
@given(pattern=st.text("ab*?/.", min_size=1), path=st.text("ab?/.", max_size=12))
def test_a_glob_matches_what_a_plain_search_for_its_pieces_would(pattern, path):
    url = f"https://x.example/{path}"
    subject = url[len("https://x.example") :] if pattern.startswith("/") else url
    assert bool(compile_pattern(pattern).search(url)) is matches(pattern, subject)


def matches(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches(pattern[1:].lstrip("*"), text[i:]) for i in range(len(text) + 1))
    return text[:1] == pattern[0] and matches(pattern[1:], text[1:])


LINKS = st.text(max_size=30) | st.text("/.:@?#%[]\\ahtps0159-\u00e9 ", max_size=30)


@settings(deadline=None)
@given(link=LINKS)
def test_the_quick_look_at_a_url_agrees_with_the_url_rules(link):
    fence = Scope(hosts=["*"]).fence()
    for url in (link, f"http://{link}", join(SEED, link) or link):
        assert reason(fence, url) == objection(url)


def objection(url: str) -> str | None:
    try:
        identify(url)
    except BadURL as error:
        return error.reason
    return None


def test_a_fence_remembers_a_bounded_number_of_hosts(monkeypatch):
    monkeypatch.setattr(Fence, "REMEMBERED", 3)
    fence = Scope(hosts=["*"]).fence()
    for number in range(10):
        assert fence.allows(f"https://h{number}.example/") == Allowed()
    assert len(fence._hosts) <= 3


@pytest.mark.parametrize(
    ("url", "is_file"),
    [
        ("https://shop.example/a/manual.pdf", True),
        ("https://shop.example/A.PDF?version=2#page=3", True),
        ("https://shop.example/dump.tar.gz", True),
        ("https://shop.example/photo.jpeg", True),
        ("https://shop.example/talk.mp4", True),
        ("https://shop.example/", False),
        ("https://pictures.zip/", False),
        ("https://shop.example/photo.jpg.html", False),
        ("https://shop.example/photo.jpg/", False),
        ("https://shop.example/show?file=photo.jpg", False),
        ("https://shop.example/wiki/File:Photo.jpg", False),  # a page about it
        ("https://shop.example/notes.txt", False),
        ("https://shop.example/data.json", False),
        ("https://shop.example/pdf", False),
    ],
)
def test_files_are_left_out_if_asked_for(url, is_file):
    said = Scope(files=False, hosts=["*"]).fence().allows(url)

    assert said == (Refused("it is a file, not a page", "file") if is_file else Allowed())
    assert Scope(hosts=["*"]).fence().allows(url) == Allowed()
