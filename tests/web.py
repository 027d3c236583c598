"""A web on loopback: every host name on one port, and a function that answers for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from skitter.engine.assembly import open_worker
from skitter.engine.loop import Worker
from skitter.engine.parts import WorkerOptions
from skitter.fetch import FetchOptions, Guard, HttpFetcher
from skitter.fetch.http.guard import Resolver
from skitter.frontier.frontier import Frontier
from skitter.settings import ArchiveOptions, FileOptions, SessionPool, WorkerConfig, Workers
from skitter.spider import Spider


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    host: str  # without the port
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def cookies(self) -> dict[str, str]:
        pairs = (one.partition("=") for one in self.headers.get("cookie", "").split("; "))
        return {name: value for name, _, value in pairs if name}


@dataclass
class Answer:
    body: str | bytes = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    lost: int = 0  # bytes of the body that do not arrive, as the connection is cut off before

    @property
    def wire(self) -> bytes:
        body = self.body.encode() if isinstance(self.body, str) else self.body
        named = {name.lower() for name, _ in self.headers}
        lines = [f"{name}: {value}\r\n" for name, value in self.headers]
        if "content-type" not in named:
            lines.append("content-type: text/html; charset=utf-8\r\n")
        lines.append(f"content-length: {len(body)}\r\n")
        return f"HTTP/1.1 {self.status} Whatever\r\n{''.join(lines)}\r\n".encode() + body


Site = Callable[[Asked], Answer | Awaitable[Answer]]


@dataclass
class Web:
    """What was asked, in order, and how to crawl it."""

    site: Site
    port: int = 0
    robots: str = ""  # empty: there is none
    asked: list[Asked] = field(default_factory=list)
    held: set[asyncio.Task[None] | None] = field(default_factory=set)  # open connections

    def url(self, path: str = "/", *, host: str = "shop.test") -> str:
        return f"http://{host}:{self.port}{path}"

    def paths(self, method: str = "") -> list[str]:
        return [one.target for one in self.asked if not method or one.method == method]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.held.add(asyncio.current_task())
        try:
            while True:
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.held.discard(asyncio.current_task())
            writer.close()

    async def hang_up(self) -> None:
        """End all connections, also those whose answer never comes."""
        held = [task for task in self.held if task]
        for task in held:
            task.cancel()
        await asyncio.gather(*held)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ")
        pairs = [line.split(": ", 1) for line in lines]
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        asked = Asked(method, headers["host"].rpartition(":")[0], target, headers, body)
        if target == "/robots.txt":
            answer: Any = Answer(self.robots, status=200 if self.robots else 404)
        else:
            self.asked.append(asked)
            answer = self.site(asked)
            if not isinstance(answer, Answer):
                answer = await answer
        wire = answer.wire
        if answer.lost:
            writer.write(wire[: -answer.lost])
            await writer.drain()
            raise ConnectionError
        writer.write(wire if method != "HEAD" else wire.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        await writer.drain()

    @asynccontextmanager
    async def fetcher(self, **options: Any) -> AsyncIterator[HttpFetcher]:
        """A client for which every name is here."""

        async def lookup(name: str) -> tuple[str, ...]:
            return ("127.0.0.1",)

        class Everywhere(Guard):
            def permits(self, whom: object) -> bool:
                return True

        fetch = FetchOptions(**options)
        resolver = Resolver(lookup=lookup)
        async with HttpFetcher(fetch, guard=Everywhere(), resolver=resolver) as fetcher:
            yield fetcher

    async def crawl(
        self,
        frontier: Frontier,
        spider: Spider,
        *,
        fetch: dict[str, Any] | None = None,
        files: FileOptions | None = None,
        archive: ArchiveOptions | None = None,
        **workers: Any,
    ) -> None:
        """With one worker, until there is nothing left."""
        tables = WorkerConfig(
            files=files or FileOptions(),
            archive=archive or ArchiveOptions(),
            workers=Workers(**workers),
        )
        async with self._worker(frontier, spider, fetch or {}, tables) as worker:
            await frontier.add([seed async for seed in spider.seeds()])
            await worker.run()

    async def crawl_one(self, frontier: Frontier, spider: Spider) -> None:
        """One page, and not a second."""
        async with self._worker(frontier, spider, {}) as worker:
            [lease] = (await frontier.lease(1)).leases
            worker.delivery.add(await worker.attempts.make(lease))
            await worker.delivery.flush()

    @asynccontextmanager
    async def _worker(
        self,
        frontier: Frontier,
        spider: Spider,
        fetch: dict[str, Any],
        tables: WorkerConfig | None = None,
    ) -> AsyncIterator[Worker]:
        config = replace(
            tables or WorkerConfig(),
            fetch=FetchOptions(obey_robots=False, **fetch),
            sessions=cast("SessionPool", spider.tables["sessions"]),
        )
        options = WorkerOptions.of(config, watch_signals=False)
        async with (
            self.fetcher(**fetch) as fetcher,
            open_worker(frontier, spider, config, fetcher=fetcher, options=options) as worker,
        ):
            yield worker


@asynccontextmanager
async def serve_web(site: Site) -> AsyncIterator[Web]:
    web = Web(site)
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0, limit=2**22)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        server.close()
        await web.hang_up()
