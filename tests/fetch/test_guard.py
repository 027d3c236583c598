"""Whom a crawler may not talk to, in every spelling."""

from __future__ import annotations

import pytest

from skitter.errors import AddressRefused, BadOption, BadURL
from skitter.fetch import Guard
from spellings import PUBLIC, spellings

PRIVATE = [
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("[::1]", "loopback"),
    ("0.0.0.0", "this machine"),
    ("0.1.2.3", "this machine"),
    ("[::]", "this machine"),
    ("10.0.0.1", "private"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.168.1.1", "private"),
    ("[fc00::1]", "private"),
    ("[fd12:3456::1]", "private"),
    ("[fec0::1]", "private"),
    ("169.254.1.1", "link-local"),
    ("[fe80::1]", "link-local"),
    ("100.64.0.1", "provider's internal"),
    ("100.127.255.255", "provider's internal"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("[ff02::1]", "multicast"),
    ("[ff0e::1]", "multicast"),
    ("169.254.169.254", "metadata"),
    ("[fd00:ec2::254]", "metadata"),
    ("100.100.100.200", "metadata"),
    ("168.63.129.16", "metadata"),
    ("192.0.0.192", "metadata"),
    ("192.0.0.8", "reserved"),
    ("192.0.2.1", "not a public"),
    ("198.18.0.1", "not a public"),
    ("203.0.113.1", "not a public"),
    ("240.0.0.1", "not a public"),
    ("255.255.255.255", "not a public"),
    ("[2001:db8::1]", "not a public"),
    ("[::ffff:127.0.0.1]", "loopback"),
    ("[::ffff:10.0.0.1]", "private"),
    ("[::127.0.0.1]", "loopback"),
    ("[64:ff9b::169.254.169.254]", "metadata"),
    ("[2002:7f00:1::1]", "loopback"),
    ("[2002:a9fe:a9fe::]", "metadata"),
    ("[::ffff:0:10.0.0.1]", "private"),
    ("[2a00:1450::5efe:10.0.0.1]", "private"),
    ("[2a00:1450::200:5efe:127.0.0.1]", "loopback"),
    ("[2001:db8::5efe:8.8.8.8]", "not a public"),
    ("[5f00::1]", "reserved"),
    ("[3fff:fff::1]", "reserved"),
    ("192.88.99.1", "reserved"),
    ("[2002:c058:6301::]", "reserved"),
    ("localhost", "this machine"),
    ("LOCALHOST", "this machine"),
    ("localhost.", "this machine"),
    ("anything.localhost", "this machine"),
]


@pytest.mark.parametrize(("host", "kind"), PRIVATE)
def test_an_address_that_is_not_public_is_refused_with_the_reason(host, kind):
    with pytest.raises(AddressRefused, match=kind):
        Guard().check_url(f"http://{host}:8080/path")


def test_every_spelling_of_this_machine_is_refused():
    for url in spellings(8080):
        with pytest.raises((AddressRefused, BadURL)):
            Guard().check_url(url)


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_host_passes(host):
    Guard().check_url(f"https://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com\\@127.0.0.1/",  # a browser asks example.com for /@127.0.0.1/
        "http://example.com#@127.0.0.1/",
        "http://example.com?@127.0.0.1/",
        "http://example.com/@127.0.0.1/",
    ],
)
def test_an_address_that_only_looks_like_the_host_passes(url):
    Guard().check_url(url)


def test_more_slashes_than_needed_are_read_as_browsers_read_them():
    Guard().check_url("http:///example.com/")
    assert Guard.for_seeds(["http:///localhost:8000/"]).allows("http://localhost:8000/")
    with pytest.raises(AddressRefused):
        Guard().check_url("http:///127.0.0.1/")


def test_an_address_behind_credentials_does_not_pass():
    with pytest.raises(BadURL):
        Guard().check_url("http://example.com@127.0.0.1/")


@pytest.mark.parametrize(
    ("host", "kind"), [pair for pair in PRIVATE if "localhost" not in pair[0].lower()]
)
def test_the_address_that_a_name_stands_for_is_refused_too(host, kind):
    with pytest.raises(AddressRefused, match=kind):
        Guard().check_address("http://example.com/", host.strip("[]"))


def test_a_link_local_address_with_a_zone_is_refused():
    with pytest.raises(AddressRefused, match="link-local"):
        Guard().check_address("http://example.com/", "fe80::1%eth0")


def test_an_unknown_address_is_refused():
    with pytest.raises(AddressRefused, match="unknown"):
        Guard().check_address("http://example.com/", None)


@pytest.mark.parametrize(
    ("allowed", "url", "passes"),
    [
        ("127.0.0.1", "http://127.0.0.1/", True),
        ("127.0.0.1", "http://127.0.0.1:8000/", True),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/", True),
        ("127.0.0.1:8000", "http://127.0.0.1:6379/", False),
        ("127.0.0.1:8000", "http://127.0.0.1/", False),
        ("127.0.0.1:80", "http://127.0.0.1/", True),
        ("127.0.0.1:80", "https://127.0.0.1/", False),
        ("127.0.0.1:443", "https://127.0.0.1/", True),
        ("127.0.0.1", "http://127.0.0.2/", False),
        ("127.0.0.1", "http://localhost/", False),
        ("LocalHost", "http://localhost:1/", True),
        ("0x7f.1", "http://127.0.0.1/", True),
        ("::1", "http://[::1]:8000/", True),
        ("[::1]", "http://[::1]/", True),
        ("[::1]:8000", "http://[::1]:8000/", True),
        ("[::1]:8000", "http://[::1]/", False),
        ("example.com", "http://10.0.0.1/", False),
    ],
)
def test_an_allowed_host_opens_itself_and_nothing_else(allowed, url, passes):
    guard = Guard(frozenset({allowed}))
    assert guard.allows(url) is passes
    if passes:
        guard.check_url(url)
        guard.check_address(url, "127.0.0.1")
    else:
        with pytest.raises(AddressRefused):
            guard.check_url(url)


def test_a_seed_allows_its_own_port_and_not_its_neighbours():
    guard = Guard.for_seeds(["http://localhost/start", "https://10.0.0.5:8443/"], also=["10.0.0.9"])
    guard.check_url("http://localhost/other")
    guard.check_url("https://10.0.0.5:8443/other")
    guard.check_url("http://10.0.0.9:1234/")
    for refused in ("http://localhost:6379/", "https://10.0.0.5/", "http://10.0.0.6:8443/"):
        with pytest.raises(AddressRefused):
            guard.check_url(refused)


@pytest.mark.parametrize("seed", ["http://wiki.corp.example/", "http://10.example.com:8000/"])
def test_a_seed_that_is_a_name_does_not_allow_a_private_address(seed):
    guard = Guard.for_seeds([seed])
    assert not guard.allows(seed)
    guard.check_address(seed, "8.8.8.8")
    with pytest.raises(AddressRefused, match="private"):
        guard.check_address(seed, "10.0.0.1")


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://10.0.0.1/a?b", "10.0.0.1"),
        ("https://10.0.0.1/", "10.0.0.1"),
        ("https://10.0.0.1:8443/", "10.0.0.1:8443"),
        ("http://[::1]:81/", "[::1]:81"),
    ],
)
def test_the_refusal_says_what_to_type_and_that_helps(url, word):
    with pytest.raises(AddressRefused) as caught:
        Guard().check_url(url)
    assert caught.value.reason.endswith(f": to fetch it anyway, use --allow-host {word}")
    Guard(frozenset({word})).check_url(url)


@pytest.mark.parametrize("host", ["", "a b", "host:port", "http://x/"])
def test_what_is_not_a_host_cannot_be_allowed(host):
    with pytest.raises(BadOption):
        Guard(frozenset({host}))
