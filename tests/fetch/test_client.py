"""The client against a real socket: what it brings home, and how it stops."""

from __future__ import annotations

import asyncio
import gzip
import resource
import socket
import sys
import tracemalloc
import zlib
from contextlib import ExitStack
from itertools import count, cycle
from time import perf_counter
from typing import Any

import pytest

from fetch.site import Page, drip, flood, raw, redirect, reply, serve, then_close, then_wait
from skitter.errors import (
    AddressRefused,
    BadOption,
    BadResponse,
    BadURL,
    ConnectFailed,
    FetchError,
    FetchTimeout,
    HostNotFound,
    NamesUnavailable,
    ResponseTooLarge,
)
from skitter.extras import RELEASE
from skitter.fetch import FetchOptions, Guard, fetch_robots, honest_user_agent
from skitter.fetch.http.guard import Resolver
from skitter.model import Request

SERIES = ".".join(RELEASE.split(".")[:2])
TEXT = b"a page that was compressed " * 20
# Made once by the brotli and zstandard packages, which the tests do not need otherwise.
BROTLI = bytes.fromhex("1b1b02e0a540c2ba104982214ce26422a341ab1db251ef36")
ZSTD = bytes.fromhex(
    "28b52ffd601c01150100d861207061676520746861742077617320636f6d70726573736564200100fbbb3ac7"
)
GZIP = gzip.compress(TEXT, mtime=0)  # no clock in it: it names a test
OK = b"HTTP/1.1 200 OK\r\n"


def request(site, path: str = "/", **fields: Any) -> Request:
    return Request(url=site.url(path), **fields)


# --- an answer ------------------------------------------------------------------------------------


async def test_an_answer_has_its_status_headers_body_address_and_time(fetcher):
    page = reply(b"hello", "Content-Type: text/plain", "X-Two: 1", "X-Two: 2", status=203)
    async with serve({"/": page}) as site:
        began = perf_counter()
        response = await fetcher.fetch(request(site))
        took_s = perf_counter() - began
    assert (response.status, response.body) == (203, b"hello")
    assert response.headers == (
        ("content-length", "5"),
        ("content-type", "text/plain"),
        ("x-two", "1"),
        ("x-two", "2"),
    )
    assert response.url == site.url()
    assert response.remote_address == "127.0.0.1"
    assert 0 < response.elapsed_s <= took_s


async def test_a_server_error_is_an_answer_too(fetcher):
    async with serve({"/": reply(b"busy", "retry-after: 7", status=503)}) as site:
        response = await fetcher.fetch(request(site))
    assert (response.status, response.header("Retry-After")) == (503, "7")


async def test_a_redirect_is_an_answer_and_is_not_followed(fetcher):
    async with serve({"/": redirect("/loop"), "/loop": redirect("/")}) as site:
        response = await fetcher.fetch(request(site))
        assert site.paths == ["/"]
    assert (response.status, response.header("location")) == (302, "/loop")


async def test_header_values_are_utf8_or_else_latin1(fetcher):
    head = b"Location: /caf\xc3\xa9\r\nX-Old: caf\xe9\r\nContent-Length: 0\r\n\r\n"
    async with serve({"/": OK + head}) as site:
        response = await fetcher.fetch(request(site))
    assert (response.header("location"), response.header("x-old")) == ("/café", "café")


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", GZIP),
        ("deflate", zlib.compress(TEXT)),
        ("br", BROTLI),
        ("zstd", ZSTD),
    ],
    ids=["gzip", "deflate", "br", "zstd"],
)
async def test_a_compressed_body_is_unpacked(fetcher, encoding, data):
    async with serve({"/": reply(data, f"content-encoding: {encoding}")}) as site:
        response = await fetcher.fetch(request(site))
        assert encoding in site.requests[0].decode().partition("accept-encoding: ")[2]
    assert response.body == TEXT


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("GZIP", GZIP),
        ("x-gzip", GZIP),
        ("gzip, gzip", gzip.compress(GZIP, mtime=0)),
        ("identity, gzip", GZIP),
        ("UTF-8", TEXT),  # it is none, and browsers ignore it
    ],
    ids=["upper case", "x-gzip", "twice", "identity", "charset"],
)
async def test_codings_may_be_spelled_otherwise_and_several(open_fetcher, encoding, data):
    async with (
        serve({"/": reply(data, f"content-encoding: {encoding}")}) as site,
        open_fetcher(max_body_mb=1) as it,
    ):
        assert (await it.fetch(request(site))).body == TEXT


async def test_an_empty_body_that_claims_to_be_gzip_is_empty(fetcher):
    async with serve({"/": reply(b"", "content-encoding: gzip")}) as site:
        assert (await fetcher.fetch(request(site))).body == b""


async def test_chunks_are_put_together(fetcher):
    body = b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n"
    async with serve({"/": raw("transfer-encoding: chunked", body=body)}) as site:
        assert (await fetcher.fetch(request(site))).body == b"hello world"


async def test_http_1_0_without_a_length_ends_with_the_connection(fetcher):
    async with serve({"/": then_close(b"HTTP/1.0 200 OK\r\n\r\nold")}) as site:
        assert (await fetcher.fetch(request(site))).body == b"old"


async def test_bytes_beyond_the_content_length_are_not_part_of_the_body(fetcher):
    async with serve({"/": then_close(raw("content-length: 2", body=b"hi there"))}) as site:
        assert (await fetcher.fetch(request(site))).body == b"hi"


@pytest.mark.parametrize("client", ["wreq"])  # aiohttp has no HTTP/2
async def test_http2_is_spoken_where_the_server_offers_it(open_fetcher, tls, certificate):
    def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
        return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload

    async def page(exchange):
        assert exchange.head.startswith(b"PRI * HTTP/2.0")
        assert await exchange.reader.readexactly(6) == b"SM\r\n\r\n"
        await exchange.send(frame(4, 0, 0))  # SETTINGS
        kind = None
        while kind != 1:  # until the HEADERS of the request are here
            size, kind = await exchange.reader.readexactly(3), (await exchange.reader.read(1))[0]
            await exchange.reader.readexactly(5 + int.from_bytes(size))
        head = frame(1, 4, 1, b"\x88")  # HEADERS of stream 1: `:status: 200`, from HPACK's table
        await exchange.send(head + frame(0, 1, 1, b"second"))  # DATA, the end
        await exchange.until_hung_up()

    tls.set_alpn_protocols(["h2"])
    async with serve({"*": page}, tls=tls) as site, open_fetcher(ca_file=certificate) as fetcher:
        response = await fetcher.fetch(Request(url=site.url(scheme="https")))
    assert (response.status, response.body) == (200, b"second")


async def test_http_1_1_is_spoken_where_the_server_wants_nothing_else(
    open_fetcher, tls, certificate
):
    tls.set_alpn_protocols(["http/1.1"])
    async with (
        serve({"/": reply(b"first")}, tls=tls) as site,
        open_fetcher(ca_file=certificate) as fetcher,
    ):
        assert (await fetcher.fetch(Request(url=site.url(scheme="https")))).body == b"first"


# --- what is sent ---------------------------------------------------------------------------------


async def test_we_say_who_we_are_and_send_no_cookies(fetcher):
    async with serve({"/": reply(b"", "set-cookie: a=1; Path=/")}) as site:
        await fetcher.fetch(request(site))
        await fetcher.fetch(request(site))
        first, second = (head.decode().lower() for head in site.requests)
    assert f"user-agent: skitter/{SERIES} (+https://github.com/skitter/skitter)\r\n" in first
    assert "accept: text/html,application/xhtml+xml" in first
    assert first == second
    assert "cookie" not in second


def test_the_contact_in_the_user_agent_is_ours_to_set():
    named = f"Skitter/{SERIES} (+mailto:me@example.org)"
    assert honest_user_agent("mailto:me@example.org") == named


async def test_a_request_brings_its_own_method_headers_and_body(fetcher):
    async def echo(exchange):
        await exchange.send(reply(exchange.head + await exchange.reader.readexactly(4)))

    async with serve({"/": echo}) as site:
        sent = request(site, method="POST", headers={"User-Agent": "x"}, body=b"\x00\xff12")
        body = (await fetcher.fetch(sent)).body
    assert body.startswith(b"POST / HTTP/1.1\r\n")
    assert body.count(b"user-agent") == 1
    assert b"user-agent: x\r\n" in body
    assert body.endswith(b"\r\n\r\n\x00\xff12")


@pytest.mark.parametrize("headers", [{"X-A": "1\r\nX-B: 2"}, {"X A": "1"}])
async def test_a_header_that_would_break_the_request_is_refused(fetcher, headers):
    async with serve({}) as site:
        with pytest.raises(FetchError, match="header of the request"):
            await fetcher.fetch(request(site, headers=headers))
        assert not site.requests


async def test_an_unknown_method_is_refused(fetcher):
    with pytest.raises(FetchError, match="BREW is not a valid HTTP method"):
        await fetcher.fetch(Request(url="http://127.0.0.1/", method="BREW"))


async def test_a_url_in_another_spelling_is_normalised_before_it_is_sent(fetcher):
    async with serve({"/b%20c": reply(b"found")}) as site:
        url = site.url("\\a\\..\\b c#part", host="127.1", scheme="HTTP")
        response = await fetcher.fetch(Request(url=url))
    assert (response.body, response.url) == (b"found", url)


async def test_credentials_in_a_url_are_not_sent(fetcher):
    with pytest.raises(BadURL, match="credentials"):
        await fetcher.fetch(Request(url="http://user:secret@127.0.0.1/"))


# --- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1000, 1001])
async def test_the_limit_of_the_body_is_exact(open_fetcher, size):
    async with (
        serve({"/": reply(b"x" * size)}) as site,
        open_fetcher(max_body_mb=1000 / 2**20) as it,
    ):
        if size == 1000:
            assert len((await it.fetch(request(site))).body) == 1000
        else:
            with pytest.raises(ResponseTooLarge, match=r"over 0\.000953674 MB"):
                await it.fetch(request(site))


async def test_an_endless_body_stops_at_the_limit_and_the_connection_is_closed(open_fetcher):
    async with (
        serve({"/": flood(raw(), b"x" * 65_536)}) as site,
        open_fetcher(max_body_mb=1) as it,
    ):
        with pytest.raises(ResponseTooLarge):
            await it.fetch(request(site))
        await asyncio.wait_for(site.hung_up.wait(), 10)


GZIPS = "gzip", "x-gzip"


async def test_a_gzip_bomb_of_300_mb_stops_at_the_limit(open_fetcher):
    packer = zlib.compressobj(wbits=31)
    start = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)  # can be repeated
    bomb = start + block * 299
    assert len(bomb) < 500_000
    before = _peak_bytes()
    async with (
        serve({f"/{one}": reply(bomb, f"content-encoding: {one}") for one in GZIPS}) as site,
        open_fetcher(max_body_mb=5) as it,
    ):
        for one in GZIPS:
            with pytest.raises(ResponseTooLarge):
                await it.fetch(request(site, f"/{one}"))
    assert _peak_bytes() - before < 60 * 2**20


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@pytest.mark.parametrize("size", [70_000, 2_000_000])
async def test_huge_headers_are_refused(fetcher, size):
    async with serve({"/": then_close(raw(f"x-big: {'a' * size}", "content-length: 0"))}) as site:
        with pytest.raises(ResponseTooLarge, match="headers are over"):
            await fetcher.fetch(request(site))


async def test_endless_headers_are_refused(fetcher):
    async with serve({"/": flood(OK, b"x-more: and more\r\n" * 1000)}) as site:
        with pytest.raises((ResponseTooLarge, BadResponse)):
            await fetcher.fetch(request(site))


# --- time -----------------------------------------------------------------------------------------


async def test_no_answer_at_all_is_a_timeout(open_fetcher):
    async with serve({"/": then_wait(b"")}) as site, open_fetcher(first_byte_timeout_s=0.2) as it:
        with pytest.raises(FetchTimeout, match=r"no response within 0\.2 s") as caught:
            await it.fetch(request(site))
        assert caught.value.retryable
        await asyncio.wait_for(site.hung_up.wait(), 10)


async def test_headers_that_drip_are_a_timeout(open_fetcher):
    page = drip(OK, b"x: y\r\n")
    async with serve({"/": page}) as site, open_fetcher(first_byte_timeout_s=0.2) as it:
        with pytest.raises(FetchTimeout, match="no response within"):
            await it.fetch(request(site))


async def test_a_body_that_stops_is_a_timeout(open_fetcher):
    page = then_wait(raw("content-length: 20", body=b"hi"))
    async with serve({"/": page}) as site, open_fetcher(first_byte_timeout_s=0.2) as it:
        with pytest.raises(FetchTimeout, match=r"the body stalled for 0\.2 s"):
            await it.fetch(request(site))


async def test_a_body_of_tiny_chunks_takes_the_memory_of_its_bytes(open_fetcher):
    body = b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n"
    page = raw("transfer-encoding: chunked", body=body)
    async with serve({"/": page}) as site, open_fetcher() as it:
        tracemalloc.start()
        try:
            answer = await it.fetch(request(site))
            _, most_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert len(answer.body) == 50_000
    assert most_bytes < 2_000_000, "200 for each"


async def test_a_body_that_drips_is_a_timeout_of_the_whole(open_fetcher):
    page = drip(raw("content-length: 2000"), b"x")
    async with serve({"/": page}) as site, open_fetcher(total_timeout_s=0.3) as it:
        with pytest.raises(FetchTimeout, match=r"longer than 0\.3 s in total"):
            await it.fetch(request(site))


@pytest.mark.skipif(sys.platform != "linux", reason="others refuse when nobody accepts")
async def test_a_connection_that_is_not_accepted_is_a_timeout(open_fetcher):
    with ExitStack() as sockets:
        deaf = sockets.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(3):  # Linux drops what comes when the queue is full
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        async with open_fetcher(connect_timeout_s=0.2) as it:
            with pytest.raises(FetchTimeout, match=r"no connection within 0\.2 s"):
                await it.fetch(Request(url=f"http://127.0.0.1:{deaf.getsockname()[1]}/"))


async def test_a_cancelled_fetch_hangs_up(fetcher):
    async with serve({"/": then_wait(raw("content-length: 20", body=b"hi"))}) as site:
        task = asyncio.create_task(fetcher.fetch(request(site)))
        await site.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(site.hung_up.wait(), 10)


# --- bad servers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["wreq"], indirect=True)
async def test_a_request_that_got_no_answer_is_not_sent_again_behind_our_back(fetcher):
    """Each request has its moment at its host, a second one too. (aiohttp tries once more when a
    connection that it used before was closed.)"""
    async with serve({"/": reply(b"here"), "/gone": then_close(b"")}) as site:
        await fetcher.fetch(request(site))  # its connection is used again
        with pytest.raises(BadResponse, match="closed before a response"):
            await fetcher.fetch(request(site, "/gone"))
        assert (site.paths, site.connections) == (["/", "/gone"], 1)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\x00\x01\x02 junk\r\n\r\n", "not HTTP"),
        (b"220 smtp.example ESMTP\r\n", "not HTTP"),
        (raw("content-length: 1", "content-length: 2", body=b"hi"), "not HTTP"),
        (raw("content-length: -1", body=b"hi"), "not HTTP"),
        (b"", "closed before a response"),
        (OK + b"Content-Le", "closed before a response"),
        (raw("content-length: 20", body=b"hi"), "cut off"),
        (raw("transfer-encoding: chunked", body=b"5\r\nhello\r\n"), "cut off"),
        (raw("transfer-encoding: chunked", body=b"5\r\nhel"), "cut off"),
        (reply(b"hello, gzip", "content-encoding: gzip"), "does not decompress"),
        (reply(GZIP[:-12], "content-encoding: x-gzip"), "does not decompress"),
        (reply(b"hello, gzip", "content-encoding: gzip, br"), "packed with br"),
        (
            raw("content-encoding: gzip", body=GZIP[:-12]),
            "does not decompress",
        ),
    ],
)
async def test_a_broken_answer_is_told_as_what_it_is(fetcher, answer, reason):
    async with serve({"/": then_close(answer)}) as site:
        with pytest.raises(BadResponse, match=reason) as caught:
            await fetcher.fetch(request(site))
    assert caught.value.retryable


async def test_a_refused_port_is_a_failed_connection(fetcher):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(ConnectFailed, match="nothing listens"):
            await fetcher.fetch(Request(url=f"http://127.0.0.1:{taken.getsockname()[1]}/"))


async def test_a_self_signed_certificate_is_refused_unless_told_otherwise(
    open_fetcher, tls, certificate
):
    async with serve({"/": reply(b"secret")}, tls=tls) as site:
        asked = Request(url=site.url(scheme="https"))
        async with open_fetcher() as careful:
            with pytest.raises(ConnectFailed, match="certificate is not trusted"):
                await careful.fetch(asked)
        async with open_fetcher(verify_tls=False) as careless:
            assert (await careless.fetch(asked)).body == b"secret"
        async with open_fetcher(ca_file=certificate) as knowing:
            assert (await knowing.fetch(asked)).body == b"secret"


async def test_plain_http_on_a_tls_port_is_a_broken_answer(fetcher, tls):
    async with serve({}, tls=tls) as site:
        with pytest.raises(BadResponse):
            await fetcher.fetch(request(site))


# --- lifetime -------------------------------------------------------------------------------------


async def test_a_connection_is_used_again(fetcher):
    async with serve({"/": reply(b"hello")}) as site:
        for _ in range(3):
            await fetcher.fetch(request(site))
        assert site.connections == 1


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced(fetcher):
    async with serve({"/": then_close(reply(b"hello"))}) as site:
        for _ in range(3):
            await fetcher.fetch(request(site))
        assert site.connections == 3


async def test_a_closed_fetcher_says_so(open_fetcher):
    async with open_fetcher() as fetcher:
        pass
    with pytest.raises(RuntimeError, match="not open"):
        await fetcher.fetch(Request(url="http://127.0.0.1/"))


@pytest.mark.parametrize(
    "options",
    [
        {"total_timeout_s": 0},
        {"max_body_mb": -1},
        {"max_header_bytes": 100},
        {"connect_timeout_s": True},
        {"user_agent": "two\nlines"},
        {"user_agent": ""},
    ],
)
def test_options_are_checked(options):
    with pytest.raises(BadOption):
        FetchOptions(**options)


# --- names ----------------------------------------------------------------------------------------


def names(*addresses: str) -> Resolver:
    """A name server that has the same answer for all names."""

    async def lookup(name):
        return addresses

    return Resolver(lookup=lookup)


@pytest.fixture
def by_name(open_fetcher):
    """A client that may talk to hosts a.example and so on, which are on this machine."""
    guard = Guard(frozenset({"localhost", "shop.example", *(f"{c}.example" for c in "abcde")}))

    def opened(*addresses, resolver=None, **options):
        resolver = resolver or names(*(addresses or ("127.0.0.1",)))
        return open_fetcher(guard=guard, resolver=resolver, **options)

    return opened


@pytest.mark.parametrize("dot", ["", "."])
async def test_the_address_that_was_checked_is_the_one_that_is_dialled(dot, by_name):
    """The system's resolver has another address for localhost, as a name server that rebinds."""
    async with (
        serve({"/": reply(b"internal")}) as other,
        serve({"/": reply(b"checked")}, address="127.0.0.2", port=other.port) as checked,
        by_name("127.0.0.2") as fetcher,
    ):
        response = await fetcher.fetch(Request(url=checked.url(host=f"localhost{dot}")))
        assert (response.body, response.remote_address) == (b"checked", "127.0.0.2")
        assert f"host: localhost{dot}:{checked.port}".encode() in checked.requests[0]
        assert other.connections == 0


async def test_redirects_of_robots_txt_dial_what_was_checked_too(by_name):
    async with serve({"/robots.txt": reply(b"User-agent: *\nDisallow: /")}) as other:
        there = "/rules.txt"
        pages = {"/robots.txt": redirect(f"http://localhost:{other.port}{there}"), there: reply()}
        async with (
            serve(pages, address="127.0.0.2", port=other.port) as checked,
            by_name("127.0.0.2") as fetcher,
        ):
            await fetch_robots(
                fetcher, Guard(frozenset({"localhost"})), checked.url("/", host="localhost"), at=0
            )
            assert checked.paths == ["/robots.txt", there]
        assert other.connections == 0


async def test_tls_is_made_with_the_name_and_not_with_the_address(tls, certificate, by_name):
    asked: list[str] = []
    tls.sni_callback = lambda _, name, __: asked.append(name)
    async with (
        serve({"/": reply(b"shop")}, tls=tls) as site,
        by_name(ca_file=certificate) as fetcher,
    ):
        shop = Request(url=site.url(host="shop.example", scheme="https"))
        assert (await fetcher.fetch(shop)).body == b"shop"
        with pytest.raises(ConnectFailed, match="certificate"):  # it is not made out to that name
            await fetcher.fetch(Request(url=site.url(host="a.example", scheme="https")))
    assert asked == ["shop.example", "a.example"]


async def test_every_address_of_a_name_can_be_used(by_name):
    async with serve({"/": reply(b"hello")}) as site, by_name("127.0.0.3", "127.0.0.1") as fetcher:
        response = await fetcher.fetch(Request(url=site.url(host="a.example")))
    assert response.remote_address == "127.0.0.1"


async def test_a_connection_to_a_name_is_used_again_whatever_the_order_of_its_addresses(by_name):
    answers = cycle([("127.0.0.1", "127.0.0.3"), ("127.0.0.3", "127.0.0.1")])

    async def lookup(name):
        return next(answers)

    resolver = Resolver(lookup=lookup, clock=count(step=1000).__next__)
    async with serve({"/": reply(b"hello")}) as site, by_name(resolver=resolver) as fetcher:
        for _ in range(4):
            await fetcher.fetch(Request(url=site.url(host="a.example")))
        assert site.connections == 1


async def test_a_request_under_way_outlives_a_change_of_the_addresses(by_name):
    go_on = asyncio.Event()

    async def slow(exchange):
        await exchange.send(raw("content-length: 5", body=b"he"))
        await go_on.wait()
        await exchange.send(b"llo")

    answers = cycle([("127.0.0.1",), ("127.0.0.1", "127.0.0.3")])

    async def lookup(name):
        return next(answers)

    resolver = Resolver(lookup=lookup, clock=count(step=1000).__next__)
    pages: dict[str, bytes | Page] = {"/slow": slow, "/": reply(b"quick")}
    async with serve(pages) as site, by_name(resolver=resolver) as fetcher:
        asked = Request(url=site.url("/slow", host="a.example"))
        first = asyncio.create_task(fetcher.fetch(asked))
        await site.asked.wait()
        assert (await fetcher.fetch(Request(url=site.url(host="a.example")))).body == b"quick"
        go_on.set()
        assert (await first).body == b"hello"


async def test_idle_connections_are_bounded_over_all_names(by_name):
    async with serve({"/": reply(b"hello")}) as site, by_name(max_idle_connections=2) as fetcher:
        for letter in "abcde":
            await fetcher.fetch(Request(url=site.url(host=f"{letter}.example")))
        async with asyncio.timeout(30):
            await site.until_open(2)
        for letter in "de":
            await fetcher.fetch(Request(url=site.url(host=f"{letter}.example")))
        assert site.connections == 5


# --- the guard, on the wire -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "0x7f000001", "localhost", "[::ffff:7f00:1]"]
)
async def test_this_machine_is_refused_before_anything_is_sent(host, open_fetcher):
    async with serve({"/": reply(b"internal")}) as site, open_fetcher(guard=None) as fetcher:
        with pytest.raises(AddressRefused):
            await fetcher.fetch(Request(url=site.url(host=host)))
        assert site.connections == 0


async def test_a_name_for_a_private_address_is_refused_before_anything_is_sent(open_fetcher):
    async def lookup(name):
        return ("93.184.215.14", "10.0.0.7")  # one good address does not excuse the other

    async with open_fetcher(guard=None, resolver=Resolver(lookup=lookup)) as fetcher:
        with pytest.raises(AddressRefused, match=r"10\.0\.0\.7 is a private address"):
            await fetcher.fetch(Request(url="http://intranet.example/"))


async def test_a_host_that_the_operator_allowed_may_be_private(open_fetcher):
    async with serve({"/": reply(b"wiki")}) as site:
        guard = Guard(frozenset({f"wiki.corp.example:{site.port}"}))
        async with open_fetcher(guard=guard, resolver=names("127.0.0.1")) as fetcher:
            asked = Request(url=site.url(host="wiki.corp.example"))
            assert (await fetcher.fetch(asked)).body == b"wiki"


async def test_a_seed_that_is_a_name_needs_to_be_allowed_and_the_error_says_how(open_fetcher):
    guard = Guard.for_seeds(["http://wiki.corp.example:8080/"])
    async with open_fetcher(guard=guard, resolver=names("10.0.0.7")) as fetcher:
        with pytest.raises(AddressRefused, match=r"--allow-host wiki\.corp\.example:8080$"):
            await fetcher.fetch(Request(url="http://wiki.corp.example:8080/"))


async def test_a_name_without_an_address_is_a_failed_connection(open_fetcher):
    async def lookup(name):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    async with open_fetcher(guard=None, resolver=Resolver(lookup=lookup)) as fetcher:
        with pytest.raises(HostNotFound, match=r"host not found: gone\.example$"):
            await fetcher.fetch(Request(url="http://gone.example/"))


async def test_names_that_cannot_be_looked_up_are_not_the_pages_fault(open_fetcher):
    async def lookup(name):
        if name == "known.example":
            return ("93.184.215.14",)
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    resolver = Resolver(lookup=lookup)
    async with open_fetcher(guard=None, resolver=resolver) as fetcher:
        with pytest.raises(NamesUnavailable, match=r"the name server does not answer$"):
            await fetcher.fetch(Request(url="http://slow.example/"))
        await resolver.resolve("known.example")  # the others are found: it is this one
        with pytest.raises(ConnectFailed, match=r"the name does not resolve for now$"):
            await fetcher.fetch(Request(url="http://slow.example/"))


async def test_a_name_that_is_not_answered_for_is_a_timeout_if_others_are(open_fetcher):
    async def lookup(name):
        if name == "known.example":
            return ("93.184.215.14",)
        await asyncio.Event().wait()
        raise AssertionError

    resolver = Resolver(lookup=lookup)
    async with open_fetcher(guard=None, connect_timeout_s=0.05, resolver=resolver) as fetcher:
        with pytest.raises(NamesUnavailable):
            await fetcher.fetch(Request(url="http://slow.example/"))
        await resolver.resolve("known.example")
        with pytest.raises(FetchTimeout, match="did not resolve within"):
            await fetcher.fetch(Request(url="http://slow.example/"))
