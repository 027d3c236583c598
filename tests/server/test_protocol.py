"""What goes over the wire: an answer is one packet, and whoever waits for something gets it."""

from __future__ import annotations

import asyncio
import gc
import re
from urllib.parse import urlsplit

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

HOST = "Host: localhost\r\n"


async def first_packet(address: str, data: str) -> bytes:
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(data.encode())
    try:
        return await reader.read(65_536)
    finally:
        writer.close()


async def test_head_and_body_come_in_one_packet(address):
    answer = await first_packet(address, f"GET /healthz HTTP/1.1\r\n{HOST}\r\n")

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.partition(b"\r\n\r\n")[2]


async def test_a_head_alone_is_sent(address):
    answer = await first_packet(address, f"HEAD /healthz HTTP/1.1\r\n{HOST}\r\n")

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")


async def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on(address):
    head = f"POST /api/login HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n"
    answer = await first_packet(
        address, f"{head}Content-Length: 14\r\nExpect: 100-continue\r\n\r\n"
    )

    assert answer == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize("path", ["/healthz", "/api/jobs/any/urls"])
@pytest.mark.parametrize(
    "hosts", [f"{HOST}Host: evil.test\r\n", f"Host: evil.test\r\n{HOST}", HOST + HOST, ""]
)
async def test_a_request_has_one_host(address, path, hosts):
    method = "GET" if path == "/healthz" else "POST"
    answer = await first_packet(address, f"{method} {path} HTTP/1.1\r\n{hosts}\r\n")

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert b'"field":"Host"' in body


async def test_a_client_that_wants_no_more_gets_all_of_its_answer(address):
    answer = await first_packet(address, f"GET /healthz HTTP/1.0\r\n{HOST}\r\n")

    assert b"connection: close" in answer
    assert answer.partition(b"\r\n\r\n")[2]


async def test_requests_that_come_together_are_answered_in_turn(address):
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    last = f"GET /api/me HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n"
    writer.write(
        f"HEAD /healthz HTTP/1.1\r\n{HOST}\r\nGET /healthz HTTP/1.1\r\n{HOST}\r\n{last}".encode()
    )
    answers = await reader.read()
    writer.close()

    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"200", b"401"]


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
async def test_calls_leave_nothing_to_the_garbage_collector(web, frontier, job):
    def cycles() -> int:
        return sum(isinstance(one, RequestResponseCycle) for one in gc.get_objects())

    gc.collect()
    before = cycles()
    for n in range(10):
        pushed = await web.post(f"/api/jobs/{job}/urls", json={"urls": [f"http://a.test/{n}"]})
        assert pushed.status_code == 202
        assert (await web.get(f"/api/jobs/{job}")).status_code == 200

    assert cycles() <= before + 1  # the last one of the connection
