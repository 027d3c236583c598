"""Patterns that meet URLs of strangers: what they match, and that none of them hangs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import BadOption
from skitter.patterns import compile_pattern, compile_patterns, first_match

URL = "https://shop.example/books/42/cover.jpg?size=2&sort=up"
#: Python's own engine takes longer than the universe has for each of these.
BOMBS = [
    ("re:(a+)+$", "a" * 8000 + "!"),
    ("re:(a|a)+$", "a" * 8000 + "!"),
    ("re:(a|aa)+$", "a" * 8000 + "!"),
    (r"re:^(\w+\s?)*$", "a" * 8000 + "!"),
    (r"re:(.*a){20}$", "a" * 8000 + "!"),
    (r"re:([a-z]+)*\d\Z", "a" * 8000),
    ("*" + "a*" * 900 + "b", "a" * 8000),
    ("*" + "a" * 4000 + "b*", "a" * 8000),
]
#: What people write, and whether it matches URL.
ORDINARY = [
    (r"re:[?&]sort=", True),
    (r"re:\.(jpe?g|png|gif|svg|css|js|pdf|zip)(\?|$)", True),
    (r"re:/\d+/", True),
    (r"re:/\d{4,}/", False),
    (r"re:/\d{,2}/", True),
    (r"re:/\d{,1}/c", False),
    (r"re:^https?://(?:www\.)?shop\.example/", True),
    (r"re:(?i)/BOOKS/", True),
    (r"re:(?P<id>\d+)/cover", True),
    (r"re:=up\Z", True),
    (r"re:\\Z", False),
    (r"re:[{,}]", False),
    (r"re:[^]Z]up$", True),
    (r"re:\bcover\b", True),
    (r"re:/books/.*size=[1-3]", True),
    (r"re:\?\w+=\d&", True),
    ("/books/*", True),
    ("/books/42/cover.jpg", False),
    ("*?size=*", True),
    ("*.jpg", False),
    ("*cover*sort*", True),
    ("https://shop.example/*", True),
    ("*", True),
]
#: Takes backtracking: in a spider's code, and nowhere else.
LOOKS_AROUND = [r"re:^(?!.*/docs/)", r"re:(?<=/)\d+", r"re:(\d)\1", r"re:(?>a+)b", "re:a++b"]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("pattern", "text"), BOMBS)
def test_no_url_makes_a_pattern_hang(pattern, text):
    url = f"https://a.example/{text}"
    assert first_match(pattern, url) is None
    assert not compile_pattern(pattern).search(url)


@pytest.mark.parametrize(("pattern", "matches"), ORDINARY)
def test_what_people_write_matches_as_python_says(pattern, matches):
    assert bool(first_match(pattern, URL)) is matches
    assert bool(compile_pattern(pattern).search(URL)) is matches
    if pattern.startswith("re:"):
        assert bool(re.search(pattern[3:], URL)) is matches


@pytest.mark.parametrize("pattern", LOOKS_AROUND)
def test_what_takes_backtracking_is_for_code_alone(pattern):
    assert bool(compile_pattern(pattern).search(URL)) is bool(re.search(pattern[3:], URL))
    with pytest.raises(BadOption, match="without look-around and back-references"):
        compile_patterns(pattern, option="exclude")


@pytest.mark.parametrize(
    "patterns",
    [
        "re:(",
        "re:" + "(" * 900 + "a" + ")" * 900,
        "re:a{99999999999}",
        "re:.{0,900}x",
        " ".join(f"re:{i}{{900}}" for i in range(9)),
        "*a* " * 9000,
    ],
)
def test_what_is_broken_or_huge_is_refused(patterns):
    with pytest.raises(BadOption, match="exclude"):
        compile_patterns(patterns, option="exclude")


def _as_expression(glob: str) -> re.Pattern[str]:
    """What a glob means, the slow way."""
    front = r"\Ahttps?://[^/]*" if glob.startswith("/") else r"\A"
    return re.compile(front + ".*".join(map(re.escape, glob.split("*"))) + r"\Z", re.DOTALL)


@given(
    st.text("/a*?.", min_size=1, max_size=8),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["http://", "https://", "ftp://", ""]),
        st.sampled_from(["a", "a.a", ""]),
        st.text("/a?.", max_size=8),
    ),
)
def test_a_glob_is_its_pieces_in_order(glob, url):
    assert compile_pattern(glob).search(url) == bool(_as_expression(glob).search(url))
