"""Addresses of gateways and APIs, as their providers document them."""

from __future__ import annotations

import pytest

from skitter.engine.proxies.bandit import Exit
from skitter.errors import BadOption
from skitter.model import Request
from skitter.settings.proxy import make_route


def preset(name: str, **fields) -> Exit:
    return Exit(make_route({"name": "r", "preset": name, **fields}), "p@ss")


@pytest.mark.parametrize(
    ("name", "plain", "full"),
    [
        (
            "thordata",
            "http://td-customer-me:p%40ss@t.pr.thordata.net:9999",
            "http://td-customer-me-country-de-sessid-{}:p%40ss@t.pr.thordata.net:9999",
        ),
        (
            "brightdata",
            "http://brd-customer-me:p%40ss@brd.superproxy.io:33335",
            "http://brd-customer-me-country-de-session-{}:p%40ss@brd.superproxy.io:33335",
        ),
        (
            "oxylabs",
            "http://customer-me:p%40ss@pr.oxylabs.io:7777",
            "http://customer-me-cc-DE-sessid-{}:p%40ss@pr.oxylabs.io:7777",
        ),
    ],
)
def test_user_names_of_gateways_carry_country_and_session(name, plain, full):
    gateway = preset(name, user="me")
    assert gateway.proxy() == plain
    found = gateway.proxy(country="de", session="shop.example/a/1") or ""
    mark = found.partition("sess")[2].partition("-")[2].partition(":")[0]
    assert found == full.format(mark)
    assert mark.isalnum()  # Bright Data takes nothing else
    assert found == gateway.proxy(country="de", session="shop.example/a/1")
    assert found != gateway.proxy(country="de", session="shop.example/a/2")


@pytest.mark.parametrize(
    ("name", "start", "country", "redirects"),
    [
        ("scraperapi", "https://api.scraperapi.com/?", "country_code", "follow_redirect=false"),
        ("scrapeops", "https://proxy.scrapeops.io/v1/?", "country", "follow_redirects=false"),
    ],
)
def test_apis_get_their_documented_parameters(name, start, country, redirects):
    page = Request(url="https://shop.example/?a=1&b=2", country="de", headers={"x": "y"})
    asked = preset(name).through_api(page, session="s")
    assert asked.url.startswith(start)
    words = asked.url.removeprefix(start).split("&")
    assert words[:3] == [
        "api_key=p%40ss",
        "url=https%3A%2F%2Fshop.example%2F%3Fa%3D1%26b%3D2",
        redirects,
    ]
    assert f"{country}=de" in words
    assert "keep_headers=true" in words
    [number] = [word for word in words if word.startswith("session_number=")]
    assert number.partition("=")[2].isdigit()
    bare = preset(name).through_api(Request(url="https://shop.example/"))
    assert bare.url.count("&") == 2


def test_a_template_of_ones_own():
    route = {"name": "r", "url": "socks5://gw:1080", "user": "u", "template": "{user}[+{session}]"}
    own = Exit(make_route(route))
    assert own.proxy() == "socks5://u@gw:1080"
    assert "socks5://u%2B" in (own.proxy(session="s") or "")
    assert Exit(make_route({"name": "r", "url": "http://gw:1"})).proxy() == "http://gw:1"
    assert Exit(make_route({"name": "r", "kind": "direct"})).proxy(session="s") is None


def test_a_country_cannot_smuggle_parameters_into_a_user_name():
    with pytest.raises(BadOption):
        preset("thordata", user="me").proxy(country="de-sessid-x")


def test_prices_are_rounded_up_and_secrets_have_no_repr():
    gateway = preset("oxylabs", price_per_request=0.0000001, price_per_gb=8)
    assert gateway.price(bytes=0) == 1
    assert gateway.price(bytes=2**30) == 8_000_001
    assert "p@ss" not in repr(gateway)
