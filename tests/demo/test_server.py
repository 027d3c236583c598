"""The shop on the wire: right answers, wrong answers on purpose, and clients without manners."""

from __future__ import annotations

import asyncio
import gzip
import time

import pytest

from demo.raw import Wire, head
from skitter.demo.site import BookShop, behaviour, connection
from skitter.demo.site.catalogue import OLD_TITLES
from skitter.demo.site.pages import LARGE_PATH
from skitter.errors import BadOption, ServerFailed


@pytest.fixture
async def wire(shop):
    async with Wire(shop.port) as opened:
        yield opened


def path_of(shop: BookShop, number: int) -> str:
    return shop.catalogue.books[number].path


# --- pages ----------------------------------------------------------------------------------------


async def test_the_home_page_is_html_and_as_long_as_it_says(shop, wire):
    reply = await wire.get("/")

    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert b"The Lantern Bookshop" in reply.body
    assert reply.body.endswith(b"</html>\n")


async def test_a_head_request_gets_the_header_alone(wire):
    reply = await wire.get("/", method="HEAD")
    whole = await wire.get("/")

    assert reply.status == 200
    assert int(reply.headers["content-length"]) == len(whole.body)


async def test_other_methods_are_refused_and_the_connection_goes_on(wire):
    wire.send(head("/", method="POST", content_length="5") + b"hello")
    refused = await wire.read()

    assert refused.status == 405
    assert refused.headers["allow"] == "GET, HEAD"
    assert (await wire.get("/")).status == 200


async def test_an_unknown_path_is_missing(wire):
    assert (await wire.get("/books/never-written")).status == 404


async def test_the_empty_page_is_empty(wire):
    reply = await wire.get(behaviour.EMPTY_PATH)

    assert (reply.status, reply.body) == (200, b"")


async def test_the_large_page_comes_whole(wire):
    reply = await wire.get(LARGE_PATH)

    assert len(reply.body) > 3_000_000
    assert reply.body.endswith(b"</html>\n")


async def test_robots_and_sitemap_have_types_of_their_own(shop, wire):
    robots, sitemap = await wire.get("/robots.txt"), await wire.get("/sitemap.xml")

    assert robots.headers["content-type"].startswith("text/plain")
    assert f"{shop.url}sitemap.xml".encode() in robots.body
    assert sitemap.headers["content-type"].startswith("application/xml")


async def test_localhost_answers_on_every_address_it_has(shop):
    reader, writer = await asyncio.open_connection("localhost", shop.port)
    writer.write(head("/about", connection="close"))

    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
    writer.close()
    await writer.wait_closed()


# --- misbehaviour ---------------------------------------------------------------------------------


async def test_a_busy_page_is_there_the_second_time(shop, wire):
    path = path_of(shop, behaviour.BUSY_ONCE[0])
    first, second = await wire.get(path), await wire.get(path)

    assert (first.status, first.headers["retry-after"]) == (503, "1")
    assert second.status == 200
    assert "retry-after" not in second.headers


async def test_a_head_request_does_not_use_up_the_trouble(shop, wire):
    path = path_of(shop, behaviour.BUSY_ONCE[0])
    for _ in range(3):
        assert (await wire.get(path, method="HEAD")).status == 503

    assert [(await wire.get(path)).status for _ in range(2)] == [503, 200]


async def test_a_broken_page_is_there_the_second_time_by_any_address(shop, wire):
    path = path_of(shop, behaviour.BROKEN_ONCE[0])

    assert (await wire.get(f"{path}?utm_source=x")).status == 500
    assert (await wire.get(path)).status == 200


async def test_a_cut_page_ends_in_the_middle_and_comes_whole_the_second_time(shop, wire):
    path = path_of(shop, behaviour.CUT_ONCE[0])
    wire.send(head(path))
    with pytest.raises(asyncio.IncompleteReadError) as cut:
        await wire.read()
    async with Wire(shop.port) as second:
        whole = await second.get(path)

    assert cut.value.partial == whole.body[: len(whole.body) // 2]
    assert [entry.complete for entry in shop.log.entries] == [False, True]


async def test_a_slow_page_takes_its_time_and_holds_up_nobody_else(shop, wire):
    number, delay_s = max(behaviour.SLOW.items(), key=lambda entry: entry[1])
    started = time.monotonic()
    slow = asyncio.create_task(wire.get(path_of(shop, number)))
    await asyncio.sleep(0)
    async with Wire(shop.port) as other:
        assert (await other.get("/")).status == 200
        assert time.monotonic() - started < delay_s

    assert (await slow).status == 200
    assert time.monotonic() - started >= delay_s


@pytest.mark.parametrize(
    ("title", "content_type"),
    [(OLD_TITLES[0], "text/html; charset=iso-8859-1"), (OLD_TITLES[1], "text/html")],
)
async def test_old_pages_are_windows_1252_whatever_their_header_says(
    shop, wire, title, content_type
):
    reply = await wire.get(shop.catalogue.titled(title).path)

    assert reply.headers["content-type"] == content_type
    assert b'<meta charset="windows-1252">' in reply.body
    assert f"<h1>{title}</h1>" in reply.body.decode("windows-1252")
    with pytest.raises(UnicodeDecodeError):
        reply.body.decode()


async def test_a_packed_page_is_gzip_for_those_who_take_it(shop, wire):
    path = path_of(shop, behaviour.PACKED_FROM)
    packed, plain = await wire.get(path, accept_encoding="br, gzip"), await wire.get(path)

    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body


async def test_old_addresses_redirect_to_the_new_ones(shop, wire):
    for book in behaviour.moved_books(shop.catalogue):
        reply = await wire.get(behaviour.old_path(book))
        assert reply.status in (301, 302, 308)
        assert reply.headers["location"].removeprefix("..") == book.path


async def test_gone_and_missing_are_told_apart(wire):
    assert (await wire.get(behaviour.GONE_PATHS[0])).status == 410
    assert (await wire.get(behaviour.MISSING_PATHS[0])).status == 404


async def test_latency_holds_every_answer_back():
    async with BookShop(books=60, latency_s=0.1) as shop, Wire(shop.port) as wire:
        for target in ("/", "/robots.txt", "/none", "/revolving-door"):
            started = time.monotonic()
            await wire.get(target)
            assert time.monotonic() - started >= 0.1


# --- many, and without manners --------------------------------------------------------------------


async def test_two_thousand_requests_on_one_connection(shop, wire):
    paths = [book.path for book in shop.catalogue.books if book.path.isascii()]
    good = [path for path in paths if path not in behaviour.write_scripts(shop.catalogue)]
    for turn in range(2000):
        assert (await wire.get(good[turn % len(good)])).status == 200

    assert len(shop.log.entries) == 2000
    assert len({entry.client_port for entry in shop.log.entries}) == 1


async def test_fifty_connections_at_once(shop):
    async def visit() -> int:
        async with Wire(shop.port) as wire:
            return sum([(await wire.get("/about")).status == 200 for _ in range(20)])

    assert await asyncio.gather(*(visit() for _ in range(50))) == [20] * 50
    assert len({entry.client_port for entry in shop.log.entries}) == 50


async def test_requests_that_come_in_one_piece_are_answered_in_order(shop, wire):
    slow = path_of(shop, next(iter(behaviour.SLOW)))
    wire.send(head(slow) + head("/none") + head("/about"))

    assert [(await wire.read()).status for _ in range(3)] == [200, 404, 200]


async def test_a_request_that_comes_in_pieces_is_answered(wire):
    for byte in head("/about"):
        wire.send(bytes([byte]))
        await asyncio.sleep(0)

    assert (await wire.read()).status == 200


@pytest.mark.parametrize(
    ("junk", "status"),
    [
        (b"\x16\x03\x01\x02\x00junk\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n folded: yes\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2_000_000, 431),
        (b"a" * 500_000, 431),
    ],
)
async def test_junk_is_refused_and_the_shop_stays_open(shop, wire, junk, status):
    wire.send(junk)
    assert (await wire.read()).status == status
    assert await wire.reader.read() == b""  # and hung up

    async with Wire(shop.port) as other:
        assert (await other.get("/")).status == 200


async def test_half_a_request_is_given_up(shop, wire, monkeypatch):
    monkeypatch.setattr(connection, "REQUEST_TIMEOUT_S", 0.05)
    wire.send(b"GET / HTTP/1.1\r\nHo")

    assert (await wire.read()).status == 408
    assert await wire.reader.read() == b""


async def test_a_client_that_talks_without_listening_is_put_out(shop, wire):
    slow = path_of(shop, next(iter(behaviour.SLOW)))
    wire.send(head(slow) * 2000)

    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await wire.read()


async def test_a_client_that_leaves_early_is_forgotten(shop):
    async with Wire(shop.port) as wire:
        wire.send(head(path_of(shop, next(iter(behaviour.SLOW)))))
        await asyncio.sleep(0.05)

    async with Wire(shop.port) as other:
        assert (await other.get("/")).status == 200


async def test_a_client_that_has_said_all_still_hears_the_answer(shop, wire):
    wire.send(head(path_of(shop, next(iter(behaviour.SLOW)))))
    wire.writer.write_eof()

    assert (await wire.read()).status == 200
    assert await wire.reader.read() == b""


@pytest.mark.parametrize(
    ("request_head", "stays"),
    [
        (b"GET /about HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (b"GET /about HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", False),
        (b"GET /about HTTP/1.0\r\n\r\n", False),
        (b"GET /about HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", True),
        (b"GET http://localhost/about HTTP/1.1\r\nHost: localhost\r\n\r\n", True),
    ],
)
async def test_the_connection_stays_if_the_client_wants_it(wire, request_head, stays):
    wire.send(request_head)
    reply = await wire.read()

    assert reply.status == 200
    assert reply.headers["connection"] == ("keep-alive" if stays else "close")
    wire.send(request_head)
    if stays:
        assert (await wire.read()).status == 200
    else:
        assert await wire.reader.read() == b""


async def test_the_shop_closes_with_guests_inside_and_opens_again_on_its_port(shop):
    async with Wire(shop.port) as idle, Wire(shop.port) as waiting:
        await idle.get("/")
        waiting.send(head(path_of(shop, next(iter(behaviour.SLOW)))))
        await asyncio.sleep(0.05)
        await shop.__aexit__(None, None, None)

        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.1", shop.port)
        await shop.__aenter__()
        async with Wire(shop.port) as wire:
            assert (await wire.get("/")).status == 200


async def test_a_port_that_is_taken_is_named(shop):
    with pytest.raises(ServerFailed, match=rf"cannot open port {shop.port} \(Address already"):
        async with BookShop(books=60, port=shop.port):
            pass


def test_options_outside_their_range_are_refused():
    with pytest.raises(BadOption, match="host must be localhost"):
        BookShop(host="0.0.0.0")
    with pytest.raises(BadOption, match="latency_s must be"):
        BookShop(latency_s=-1)


def test_a_closed_shop_has_no_address():
    with pytest.raises(RuntimeError, match="not open"):
        _ = BookShop(books=60).url
