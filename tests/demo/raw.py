"""HTTP by hand, for tests of what a well-behaved client would never send or see."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.close()
        with suppress(ConnectionError):  # the shop was faster
            await self.writer.wait_closed()

    async def get(self, target: str, *, method: str = "GET", **headers: str) -> Reply:
        self.send(head(target, method=method, **headers))
        return await self.read(has_body=method != "HEAD")

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read(self, *, has_body: bool = True) -> Reply:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in pairs}
        length = int(headers["content-length"]) if has_body else 0
        return Reply(int(first.split()[1]), headers, await self.reader.readexactly(length))


def head(target: str, *, method: str = "GET", **headers: str) -> bytes:
    fields = {"Host": "localhost", "User-Agent": "raw/1.0"}
    fields |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    lines = [f"{method} {target} HTTP/1.1", *(f"{n}: {v}" for n, v in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
