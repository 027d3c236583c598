"""The proxy of a network: which URL takes which, by the rules that other programs follow."""

from __future__ import annotations

import pytest

from skitter.errors import BadOption
from skitter.settings import resolve
from skitter.settings.fetch import outbound_of

A, B = "http://proxy.test:3128", "socks5://other.test:1080"
PAGE, SAFE = "http://shop.test/", "https://shop.test/"


@pytest.mark.parametrize(
    ("environment", "plain", "safe"),
    [
        ({}, None, None),
        ({"HTTP_PROXY": A}, A, None),
        ({"HTTPS_PROXY": A}, None, A),
        ({"http_proxy": A, "HTTP_PROXY": B, "https_proxy": B}, A, B),
        ({"ALL_PROXY": B, "HTTP_PROXY": A}, A, B),
        ({"all_proxy": "socks5h://other.test:1080"}, B, B),
        ({"HTTP_PROXY": "proxy.test:3128", "HTTPS_PROXY": " "}, A, None),
        ({"HTTP_PROXY": A, "NO_PROXY": "shop.test"}, None, None),
        ({"HTTP_PROXY": A, "HTTPS_PROXY": A, "no_proxy": "shop.test:443"}, A, None),
    ],
)
def test_the_environment_decides_by_scheme(environment, plain, safe):
    found = outbound_of(None, environment)

    assert (found and found.proxy_for(PAGE), found and found.proxy_for(SAFE)) == (plain, safe)


@pytest.mark.parametrize(
    ("exempt", "url", "is_exempt"),
    [
        ("*", PAGE, True),
        ("a.test, shop.test", PAGE, True),
        (".shop.test", "http://www.shop.test/", True),
        ("*.shop.test", "http://www.shop.test/", True),
        ("shop.test", "http://myshop.test/", False),
        ("SHOP.test", "http://Shop.TEST./", True),
        ("shop.test:8080", "http://shop.test:8080/", True),
        ("shop.test:8080", PAGE, False),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("10.0.0.0/8", PAGE, False),
        ("fd00::/8", "http://[fd00::1]/", True),
        ("2001:db8::1", "http://[2001:db8::1]:80/", True),
        ("not a network/99", PAGE, False),
    ],
)
def test_no_proxy_exempts_hosts_from_every_proxy(exempt, url, is_exempt):
    by_hand = outbound_of(A, {"NO_PROXY": exempt})
    ambient = outbound_of(None, {"HTTP_PROXY": A, "NO_PROXY": exempt})

    for found in (by_hand, ambient):
        assert found is not None
        assert found.proxy_for(url) == (None if is_exempt else A)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]", "x.localhost"])
def test_what_the_environment_names_is_not_for_this_machine(host):
    ambient = outbound_of(None, {"ALL_PROXY": A})
    by_hand = outbound_of(A, {})

    assert ambient is not None
    assert ambient.proxy_for(f"http://{host}/") is None
    assert by_hand is not None
    assert by_hand.proxy_for(f"http://{host}/") == A


def test_one_that_cannot_be_used_is_named_without_its_password(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "socks4://me:s3cret@proxy.test:1080")
    with pytest.raises(BadOption, match=r"^HTTPS_PROXY must be scheme://host:port") as refused:
        resolve()
    assert "s3cret" not in str(refused.value)
    with pytest.raises(BadOption, match=r"^--proxy must be") as refused:
        resolve({"fetch.proxy": "ftp://me:s3cret@proxy.test"})
    assert "s3cret" not in str(refused.value)


def test_a_proxy_named_by_hand_takes_the_place_of_those_in_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skitter.toml").write_text('[[proxy]]\nname = "home"\nkind = "direct"\n')

    assert len(resolve().proxies) == 1
    assert resolve({"fetch.proxy": A}).proxies == ()
