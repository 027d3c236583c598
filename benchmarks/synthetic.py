"""A generated site as a process: python -m benchmarks.synthetic '{"pages": ...}'

Any /p/N.html below `pages` is generated on request, and delayed if so configured: simulates a
distant web server, or one with very many pages. Prints its origin once it listens.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import cast

import msgspec
import uvloop

from benchmarks.pages import links_found_twice, tree_links, write_page

_END = b"\r\n\r\n"
SMALL_BYTES = 1_000


class SyntheticTask(msgspec.Struct, frozen=True, kw_only=True):
    """A generated site."""

    pages: int
    latency_s: float = 0.0
    nice: int = 0
    twice: bool = False  # small pages without links back, each linked twice


class Connection(asyncio.Protocol):
    """Answers in order; a crawler's client sends one request at a time."""

    def __init__(self, task: SyntheticTask) -> None:
        self._task = task
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *heads, self._received = (self._received + data).split(_END)
        for head in heads:
            answer = make_answer(head, self._task.pages, twice=self._task.twice)
            asyncio.get_running_loop().call_later(self._task.latency_s, self._send, answer)

    def _send(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)


def make_answer(head: bytes, pages: int, *, twice: bool = False) -> bytes:
    """The bytes of a response to a GET; 404 for anything but the pages."""
    name = head.split(b" ", 2)[1].removeprefix(b"/p/").removesuffix(b".html")
    if name.isdigit() and (number := int(name)) < pages:
        status = b"200 OK"
        if twice:
            body = write_page(number, links_found_twice(number), size_bytes=SMALL_BYTES)
        else:
            body = write_page(number, tree_links(number, pages))
    else:
        status, body = b"404 Not Found", b"<title>not here</title>"
    return (
        b"HTTP/1.1 %b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n%b"
    ) % (status, len(body), body)


async def serve(task: SyntheticTask) -> None:
    """Serve until SIGTERM."""
    os.nice(task.nice)
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    server = await loop.create_server(lambda: Connection(task), "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await over.wait()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(msgspec.json.decode(sys.argv[1], type=SyntheticTask)))
