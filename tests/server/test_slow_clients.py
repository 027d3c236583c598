"""Clients that are slow, or send what is not HTTP, are let go; others are served meanwhile."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from skitter.server import endpoint
from skitter.server.protocol import PatientProtocol


async def talk(address: str, data: bytes) -> bytes:
    """What the server answers before it closes the connection."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionResetError:  # closed with some of it unread
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("begin", [b"", b"GET /healthz HTTP/1.1\r\nHost: loc"])
async def test_headers_that_do_not_come_end_the_connection(address, begin, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "headers_s", 0.1)

    assert await talk(address, begin) == b""


async def test_headers_of_a_second_request_that_do_not_come_end_it_too(address, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "headers_s", 0.1)
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"

    assert (await talk(address, one + b"\r\n" + one)).count(b"200 OK") == 1


async def test_a_connection_without_a_next_request_is_closed(address, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "idle_s", 0.1)
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    assert (await talk(address, one + one)).count(b"200 OK") == 2


async def test_a_body_that_does_not_come_is_a_problem(address, web, monkeypatch):
    monkeypatch.setattr(endpoint, "BODY_S", 0.1)
    head = "POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    answer = await talk(address, f"{head}Content-Length: 100\r\n\r\n{{".encode())

    assert b"408" in answer.splitlines()[0]


async def test_endless_headers_are_refused(address, web):
    endless = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000

    assert b"200 OK" not in await talk(address, endless)
    assert (await web.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    "data", [b"\x00\xff\n\n", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
)
async def test_what_is_not_http_is_refused(address, data):
    assert b"400" in (await talk(address, data)).splitlines()[0]
