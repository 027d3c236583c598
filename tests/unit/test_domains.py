"""Which hosts belong together."""

import pytest

from skitter.domains import is_public_suffix, registrable_domain


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.co.uk", "example.co.uk"),
        ("shop.example.com:8443", "example.com"),
        ("a.b.github.io", "b.github.io"),  # everybody has a page of their own there
        ("co.uk", "co.uk"),
        ("localhost:8000", "localhost"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("[::1]:8000", "::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("shop.bookshop.test", "bookshop.test"),
        ("", ""),
    ],
)
def test_the_domain_that_somebody_registered(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


def test_a_public_suffix_belongs_to_nobody() -> None:
    assert is_public_suffix("co.uk")
    assert is_public_suffix("github.io")
    assert not is_public_suffix("example.co.uk")
    assert not is_public_suffix("127.0.0.1")
    assert not is_public_suffix("")
