"""Clients of the HTTP server as a process: python -m benchmarks.clients '{"kind": ...}'

Producers send requests at a steady rate, evenly spread, each on a persistent connection. A
request's time counts from when it was due, so that a late server is charged for the requests that
had to wait. Dashboards listen, and count the messages they receive, and poll for their charts.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Literal

import msgspec
import uvloop

from benchmarks.processes import say


class ClientsTask(msgspec.Struct, frozen=True, kw_only=True):
    """This many clients, for this long."""

    kind: Literal["push", "poll", "listen"]
    port: int
    path: str
    token: str
    clients: int
    seconds: float
    per_s: float = 10.0  # requests per client


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    answers: int
    failed: int
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0


async def send(task: ClientsTask) -> Answered:
    """All clients, started together."""
    begin_at = time.perf_counter() + 0.5
    ask = _produce if task.kind == "push" else _poll
    ran = await asyncio.gather(*(ask(task, one, begin_at) for one in range(task.clients)))
    good = sorted(took for each in ran for took, status in each if status in (200, 202))
    asked = sum(map(len, ran))
    p50, p95, p99 = (1000 * good[int(len(good) * part)] for part in (0.5, 0.95, 0.99))
    return Answered(answers=asked, failed=asked - len(good), p50_ms=p50, p95_ms=p95, p99_ms=p99)


async def _produce(task: ClientsTask, number: int, begin_at: float) -> list[tuple[float, int]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", task.port)
    took = []
    for turn in range(round(task.seconds * task.per_s)):
        due = begin_at + (turn + number / task.clients) / task.per_s
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        writer.write(_request(task, number, turn))
        status = await _status(reader)
        took.append((time.perf_counter() - due, status))
    writer.close()
    return took


async def _poll(task: ClientsTask, number: int, begin_at: float) -> list[tuple[float, int]]:
    """The same on a connection for each request: they are too rare for a persistent one."""
    took = []
    turns = max(1, round(task.seconds * task.per_s))
    for turn in range(turns):
        due = begin_at + (turn + number / task.clients) * task.seconds / turns
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        reader, writer = await asyncio.open_connection("127.0.0.1", task.port)
        writer.write(_get(task))
        status = await _status(reader)
        writer.close()
        took.append((time.perf_counter() - due, status))
    return took


def _request(task: ClientsTask, number: int, turn: int) -> bytes:
    url = f"https://www.shop-{number:03}.example/catalogue/item-{turn:06}-{task.port}.html?v=1"
    body = msgspec.json.encode({"urls": [url]})
    head = (
        f"POST {task.path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {task.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _get(task: ClientsTask) -> bytes:
    head = f"GET {task.path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {task.token}"
    return head.encode() + b"\r\n\r\n"


async def _status(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
    await reader.readexactly(int(length))
    return int(head.split()[1])


async def listen(task: ClientsTask) -> Answered:
    """Open dashboards that read everything they are sent."""
    heard = await asyncio.gather(*(_hear(task) for _ in range(task.clients)))
    return Answered(answers=sum(heard), failed=sum(not one for one in heard))


async def _hear(task: ClientsTask) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", task.port)
    writer.write(_get(task))
    heard = 0
    try:
        async with asyncio.timeout(task.seconds):
            while line := await reader.readline():
                heard += line.startswith(b"event: ")
    except TimeoutError:
        pass
    writer.close()
    return heard


if __name__ == "__main__":
    task = msgspec.json.decode(sys.argv[1], type=ClientsTask)
    say(uvloop.run(listen(task) if task.kind == "listen" else send(task)))
