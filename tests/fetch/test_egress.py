"""The egress proxy: who may use it, whom it reaches, and what it counts."""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fetch.site import raw, reply, serve
from proxies import Proxy, open_proxy
from skitter.errors import AddressRefused, BadOption, ConnectFailed, FetchTimeout, ProxyFault
from skitter.fetch.browser.egress import Egress, Way
from skitter.fetch.http.guard import Guard, Resolver

PAGE = {"/": reply(b"home"), "/a?b=1": reply(b"query")}
#: What the name server of the tests says.
NAMES = {"shop.example": ("127.0.0.1",), "inside.example": ("10.0.0.8",), "two.example": ()}


async def look_up(name: str) -> tuple[str, ...]:
    if not NAMES.get(name):
        raise OSError
    return NAMES[name]


@asynccontextmanager
async def opened(*allowed: str, **options: Any) -> AsyncIterator[Egress]:
    resolver = Resolver(lookup=look_up)
    async with Egress(Guard(frozenset(allowed)), resolver, **options) as egress:
        yield egress
    await resolver.close()


def credentials(way: Way, password: str | None = None) -> str:
    pair = f"{way.user}:{way.password if password is None else password}"
    return f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}"


async def ask(egress: Egress, line: str, *headers: str, then: bytes = b"") -> bytes:
    """Everything that comes back; `then` is sent after the first answer."""
    port = int(egress.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write("\r\n".join([f"{line} HTTP/1.1", *headers, "", ""]).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if then:
            writer.write(then)
            return answer + await reader.readuntil(b"\r\n\r\nhome")
        return answer + await reader.readexactly(int(LENGTH.findall(answer.lower())[0]))
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split()[1])


LENGTH = re.compile(rb"content-length: (\d+)")
GET = b"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n"


async def test_a_tunnel_and_a_plain_request_reach_a_host_that_is_allowed() -> None:
    async with serve(PAGE) as site, opened("shop.example") as egress:
        way = egress.open_way()
        tunnel = await ask(egress, f"CONNECT shop.example:{site.port}", credentials(way), then=GET)
        plain = await ask(
            egress, f"GET {site.url('/a?b=1', host='shop.example')}", credentials(way), "X-A: 1"
        )
    assert status(tunnel) == status(plain) == 200
    assert tunnel.endswith(b"home")
    assert plain.endswith(b"query")
    assert site.paths == ["/", "/a?b=1"]
    assert b"X-A: 1" in site.requests[1]
    assert way.received_bytes > len(b"homequery")
    assert way.sent_bytes >= len(GET)


async def test_credentials_and_the_next_host_stay_on_their_connection() -> None:
    keeps = {"/": raw("connection: keep-alive", "content-length: 4", body=b"home")}
    async with serve(keeps) as site, opened("shop.example") as egress:
        way = egress.open_way()
        line = f"GET {site.url(host='shop.example')}"
        port = int(egress.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{line} HTTP/1.1\r\n{credentials(way)}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert b"connection: close" in head.lower()
    assert b"keep-alive" not in head
    assert b"proxy-authorization" not in site.requests[0].lower()


@pytest.mark.parametrize("password", [None, "wrong"])
async def test_nobody_gets_through_without_the_password(password: str | None) -> None:
    async with serve(PAGE) as site, opened("shop.example") as egress:
        way = egress.open_way()
        said = [] if password is None else [credentials(way, password)]
        target = f"CONNECT shop.example:{site.port}"
        assert status(await ask(egress, target, *said)) == 407
        egress.close_way(way)
        assert status(await ask(egress, target, credentials(way))) == 407
    assert not site.connections


async def test_credentials_may_follow_on_the_same_connection() -> None:
    """As Chromium sends them: after the 407, on the connection that it has."""
    async with serve(PAGE) as site, opened("shop.example") as egress:
        way = egress.open_way()
        again = f"GET {site.url(host='shop.example')} HTTP/1.1\r\n{credentials(way)}\r\n\r\n"
        answer = await ask(egress, f"GET {site.url(host='shop.example')}", then=again.encode())
    assert answer.endswith(b"home")


async def test_the_body_of_a_request_without_credentials_is_not_taken_for_the_next() -> None:
    async with serve(PAGE) as site, opened("shop.example") as egress:
        egress.open_way()
        line = f"POST {site.url(host='shop.example')} HTTP/1.1\r\ncontent-length: 3\r\n\r\na=1"
        port = int(egress.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(line.encode())
        answer = await reader.read()  # until it hangs up
        writer.close()
    assert status(answer) == 407
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "inside.example",
        "shop.example",
    ],
)
async def test_private_addresses_are_refused_in_every_spelling(host: str) -> None:
    async with serve(PAGE) as site, opened() as egress:
        way = egress.open_way()
        tunnel = await ask(egress, f"CONNECT {host}:{site.port}", credentials(way))
        plain = await ask(egress, f"GET http://{host}:{site.port}/", credentials(way))
        assert isinstance(way.failure_of(f"http://{host}:{site.port}/x"), AddressRefused)
    assert status(tunnel) == status(plain) == 403
    assert not site.connections


async def test_the_address_that_was_checked_is_the_one_that_is_dialled() -> None:
    """A name server that changes its mind between the check and the connection gains nothing."""
    answers = iter([("127.0.0.1",), ("10.0.0.8",)])

    async def fickle(name: str) -> tuple[str, ...]:
        return next(answers)

    resolver = Resolver(lookup=fickle)
    allowed = Guard(frozenset({"shop.example"}))
    async with serve(PAGE) as site, Egress(allowed, resolver) as egress:
        way = egress.open_way()
        answer = await ask(egress, f"GET {site.url(host='shop.example')}", credentials(way))
    await resolver.close()
    assert answer.endswith(b"home")
    assert next(answers) == ("10.0.0.8",), "it was asked twice"


async def test_what_cannot_be_reached_is_remembered_until_it_can() -> None:
    async with opened("shop.example", "two.example") as egress:
        way = egress.open_way()
        async with serve(PAGE) as site:
            port = site.port
        assert status(await ask(egress, f"CONNECT shop.example:{port}", credentials(way))) == 502
        assert status(await ask(egress, "CONNECT two.example:443", credentials(way))) == 502
        assert isinstance(way.failure_of(f"https://shop.example:{port}/"), ConnectFailed)
        assert isinstance(way.failure_of("https://two.example/"), ConnectFailed)
        async with serve(PAGE, port=port):
            await ask(egress, f"CONNECT shop.example:{port}", credentials(way), then=GET)
        assert way.failure_of(f"https://shop.example:{port}/") is None


@pytest.mark.parametrize(
    "line", ["GET ftp://shop.example/", "GET /", "CONNECT shop.example", "CONNECT [:1", "GET a b"]
)
async def test_everything_else_is_refused(line: str) -> None:
    async with opened("shop.example") as egress:
        assert status(await ask(egress, line, credentials(egress.open_way()))) == 400


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_a_way_goes_through_its_upstream_with_its_credentials(
    scheme: str, tls: ssl.SSLContext, certificate
) -> None:
    trust = ssl.create_default_context(cafile=str(certificate))
    NAMES["far.example"] = ("93.184.216.34",)
    async with (
        serve(PAGE) as site,
        open_proxy(
            Proxy(names={"far.example": ("127.0.0.1", site.port)}, credentials="ann:se:cret"),
            tls=tls if scheme == "https" else None,
        ) as proxy,
        opened(tls=trust) as egress,
    ):
        way = egress.open_way(proxy.url(scheme, "ann:se%3Acret"))
        whom = f"far.example:{site.port}"
        tunnel = await ask(egress, f"CONNECT {whom}", credentials(way), then=GET)
        plain = await ask(egress, f"GET http://{whom}/", credentials(way))
        inside = await ask(egress, f"CONNECT inside.example:{site.port}", credentials(way))
    assert tunnel.endswith(b"home")
    assert plain.endswith(b"home")
    assert status(inside) == 403
    whole = f"socks {whom}" if scheme == "socks5" else f"GET http://{whom}/"
    assert proxy.lines == [f"{'socks' if scheme == 'socks5' else 'CONNECT'} {whom}", whole]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_an_upstream_that_rejects_the_credentials_is_told_apart(scheme: str) -> None:
    NAMES["far.example"] = ("93.184.216.34",)
    async with open_proxy(Proxy(credentials="ann:new")) as proxy, opened() as egress:
        way = egress.open_way(proxy.url(scheme, "ann:old"))
        assert status(await ask(egress, "CONNECT far.example:443", credentials(way))) == 502
    failure = way.failure_of("https://far.example/")
    assert isinstance(failure, ProxyFault)
    assert "proxy" in failure.reason
    assert "old" not in repr(way)


async def test_an_upstream_that_says_nothing_is_given_up() -> None:
    NAMES["far.example"] = ("93.184.216.34",)
    async with serve({}) as silent, opened(connect_timeout_s=0.05) as egress:
        way = egress.open_way(f"socks5://127.0.0.1:{silent.port}")
        assert status(await ask(egress, "CONNECT far.example:443", credentials(way))) == 502
    assert isinstance(way.failure_of("https://far.example/"), FetchTimeout)


@pytest.mark.parametrize("url", ["ftp://a:1", "socks5://", "http://a:99999", "a:80"])
async def test_what_is_not_a_proxy_is_refused(url: str) -> None:
    async with opened() as egress:
        with pytest.raises(BadOption, match="proxy must be"):
            egress.open_way(url)
