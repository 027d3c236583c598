"""Pages through real proxies on loopback, which alone know where their names lead."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fetch.site import Site, reply, serve
from proxies import Proxy, open_proxy
from skitter.errors import AddressRefused, BadOption, ConnectFailed, ProxyFault
from skitter.fetch import Guard, StaticFetcher
from skitter.fetch.http.guard import Resolver
from skitter.model import Request

SHOP = Request(url="http://shop.example/")
LOCKED = Request(url="https://shop.example/")


async def nothing_resolves(name: str) -> tuple[str, ...]:
    raise socket.gaierror(name)


async def private(name: str) -> tuple[str, ...]:
    return ("10.0.0.7",)


@pytest.fixture
def opened(open_fetcher):
    def opened(*hosts, lookup=nothing_resolves, **options):
        guard = Guard(frozenset(hosts))
        return open_fetcher(guard=guard, resolver=Resolver(lookup=lookup), **options)

    return opened


@asynccontextmanager
async def shop_behind(
    proxy: Proxy, *, site_tls: Any = None, tls: Any = None
) -> AsyncIterator[Site]:
    """A shop that only the proxy can find."""
    async with serve({"/": reply(b"books")}, tls=site_tls) as site:
        proxy.names["shop.example"] = ("127.0.0.1", site.port)
        async with open_proxy(proxy, tls=tls):
            yield site


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_page_comes_through_a_proxy_that_resolves_its_name(scheme, opened):
    async with shop_behind(proxy := Proxy()) as site, opened() as fetcher:
        response = await fetcher.fetch(SHOP, proxy=proxy.url(scheme))
    assert (response.url, response.status, response.body) == (SHOP.url, 200, b"books")
    assert b"host: shop.example" in site.requests[0].lower()
    assert proxy.asked == {"shop.example": 1}


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_a_tunnel_carries_tls_to_the_site(scheme, tls, certificate, opened):
    proxy, outer = Proxy(), tls if scheme == "https" else None
    async with (
        shop_behind(proxy, site_tls=tls, tls=outer),
        opened(ca_file=certificate, http2=False) as fetcher,
    ):
        response = await fetcher.fetch(LOCKED, proxy=proxy.url(scheme))
    assert response.body == b"books"


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_credentials_are_sent_and_each_user_has_connections_of_its_own(scheme, opened):
    proxy = Proxy(credentials="shopper:p@ss/word")
    async with shop_behind(proxy), opened() as fetcher:
        for user in ("shopper-session-a", "shopper-session-b", "shopper-session-a"):
            address = proxy.url(scheme, f"{user}:p%40ss%2Fword")
            assert (await fetcher.fetch(SHOP, proxy=address)).body == b"books"
    assert set(proxy.users) == {"shopper-session-a", "shopper-session-b"}
    assert proxy.connections == 2


@pytest.mark.parametrize("asked", [SHOP, LOCKED], ids=["plain", "tunnel"])
@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_rejected_credentials_are_the_proxys_fault_and_are_not_shown(scheme, asked, opened):
    async with shop_behind(proxy := Proxy(credentials="u:p")), opened() as fetcher:
        with pytest.raises(ProxyFault, match="rejects our credentials") as caught:
            await fetcher.fetch(asked, proxy=proxy.url(scheme, "customer-7:secret"))
    assert "secret" not in str(caught.value)
    assert "customer" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_gateway_without_a_peer_is_the_proxys_fault(scheme, opened):
    async with shop_behind(proxy := Proxy(fails=502)), opened() as fetcher:
        with pytest.raises(ProxyFault):
            await fetcher.fetch(LOCKED, proxy=proxy.url(scheme))


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_a_dead_proxy_is_the_proxys_fault(scheme, opened):
    async with opened() as fetcher:
        async with open_proxy() as proxy:
            address = proxy.url(scheme)
        with pytest.raises(ProxyFault, match="does not listen"):
            await fetcher.fetch(SHOP, proxy=address)


async def test_socks_tells_a_site_that_is_down_from_itself(opened):
    nowhere = Proxy(names={"shop.example": ("127.0.0.1", 1)})
    async with open_proxy(nowhere) as proxy, opened() as fetcher:
        with pytest.raises(ConnectFailed, match="the proxy cannot reach it"):
            await fetcher.fetch(LOCKED, proxy=proxy.url("socks5"))


async def test_literal_private_addresses_stay_refused(opened):
    async with open_proxy() as proxy, opened() as fetcher:
        for url in ("http://169.254.169.254/", "http://localhost/", "http://[::1]/"):
            with pytest.raises(AddressRefused):
                await fetcher.fetch(Request(url=url), proxy=proxy.url())
    assert proxy.connections == 0


async def test_a_name_that_is_private_here_is_refused_unless_the_operator_allows_it(opened):
    async with shop_behind(proxy := Proxy()):
        async with opened(lookup=private) as fetcher:
            with pytest.raises(AddressRefused):
                await fetcher.fetch(SHOP, proxy=proxy.url())
        assert proxy.connections == 0
        async with opened("shop.example", lookup=private) as fetcher:
            assert (await fetcher.fetch(SHOP, proxy=proxy.url())).body == b"books"


async def test_a_name_that_does_not_resolve_here_is_looked_up_once(opened):
    asked = []

    async def lookup(name: str) -> tuple[str, ...]:
        asked.append(name)
        raise socket.gaierror(name)

    async with shop_behind(proxy := Proxy()), opened(lookup=lookup) as fetcher:
        for _ in range(3):
            await fetcher.fetch(SHOP, proxy=proxy.url())
    assert asked == ["shop.example"]


@pytest.mark.parametrize("bad", ["ftp://x:1", "nonsense", "http://:1", "http://x:port"])
async def test_an_address_that_cannot_be_used_is_refused_not_left_out(bad, opened):
    async with opened() as fetcher:
        with pytest.raises(BadOption):
            await fetcher.fetch(SHOP, proxy=bad)


async def test_the_stand_in_notes_the_proxy():
    fetcher = StaticFetcher({SHOP.url: b"hi"})
    await fetcher.fetch(SHOP, proxy="http://p:1")
    assert fetcher.proxies == ["http://p:1"]


@pytest.mark.parametrize("is_ambient", [True, False], ids=["environment", "by hand"])
async def test_the_proxy_of_the_network_is_taken_and_the_guard_stays(
    is_ambient, opened, monkeypatch
):
    async with shop_behind(proxy := Proxy(credentials="u:p")):
        url = proxy.url(credentials="u:p")
        monkeypatch.setenv("HTTP_PROXY", url if is_ambient else "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "direct.example")
        options = {} if is_ambient else {"proxy": url}
        async with opened(**options) as fetcher:
            assert (await fetcher.fetch(SHOP)).body == b"books"
            for refused in ("http://10.0.0.1/", "http://[::ffff:10.0.0.1]/", "http://localhost/"):
                with pytest.raises(AddressRefused):
                    await fetcher.fetch(Request(url=refused))
            with pytest.raises(ConnectFailed):
                await fetcher.fetch(Request(url="http://direct.example/"))
        async with opened(lookup=private, **options) as fetcher:
            with pytest.raises(AddressRefused):
                await fetcher.fetch(SHOP)
    assert proxy.asked == {"shop.example": 1}
