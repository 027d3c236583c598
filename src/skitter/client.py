"""A client of the HTTP API, for programs that should not have credentials for Redis.

    from skitter.client import Client

    with Client("http://127.0.0.1:8765", token="skt_...") as skitter:
        skitter.push("books", ["https://books.example/"])

`AsyncClient` is the same with `async with` and `await`. Problems that the API reports are raised as
`ApiError`; routes without a method here are reached with `call`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import quote, urlencode

import msgspec

from skitter.errors import ApiError as ApiError
from skitter.errors import ServerUnreachable
from skitter.model import BadEntry, Pushed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

BATCH = 1000
LONGEST_WAIT_S = 60.0
#: Less than the usual `timeout_s`.
FOLLOW_S = 20

Url = str | dict[str, Any]


class _Ask(NamedTuple):
    """One call of the API."""

    method: str
    path: str
    body: Any = None
    query: Mapping[str, Any] = {}

    def url(self, base: str) -> str:
        asked = urlencode({name: one for name, one in self.query.items() if one is not None})
        return f"{base}/{self.path}" + (f"?{asked}" if asked else "")

    def options(self) -> dict[str, Any]:
        if self.body is None:
            return {}
        headers = {"content-type": "application/json"}
        return {"body": msgspec.json.encode(self.body), "headers": headers}


def _settings(token: str, timeout_s: float) -> dict[str, Any]:
    return {
        "headers": {"authorization": f"Bearer {token}"},
        "user_agent": "skitter-client",
        "timeout": timedelta(seconds=timeout_s),
        "http1_only": True,
    }


def _answer(status: int, after: memoryview | None, body: bytes) -> Any:
    try:
        answer = msgspec.json.decode(body) if body else None
    except msgspec.DecodeError:
        answer = {"detail": f"the server answered {status}, but not as Skitter's API does."}
        status = max(status, 500)
    if status < 400:
        return answer
    said = bytes(after or b"0")
    seconds = float(said) if said.isdigit() else 0.0
    raise ApiError(status, answer if isinstance(answer, dict) else {}, retry_after_s=seconds)


def _away(base: str, error: Exception) -> ServerUnreachable:
    return ServerUnreachable(
        f"{base} does not answer ({type(error).__name__}): check that `skitter serve` runs."
    )


def _pause_s(error: ApiError, *, wait: bool) -> float:
    """How long to wait before pushing again. Raises the error if retrying will not help."""
    if not wait or error.status not in (429, 503):
        raise error
    return min(error.retry_after_s or 1.0, LONGEST_WAIT_S)


def _job(job: str, *rest: str) -> str:
    return "/".join(["api/jobs", quote(job, safe=""), *rest])


def _push(job: str, urls: list[Url], priority: int) -> _Ask:
    return _Ask("POST", _job(job, "urls"), {"urls": urls, "priority": priority})


def _follow(found: dict[str, Any]) -> _Ask:
    return _Ask("GET", f"api/scrape/{found['id']}", query={"wait_s": FOLLOW_S})


def _batches(urls: Iterable[Url]) -> Iterator[tuple[int, list[Url]]]:
    rest, at = iter([urls] if isinstance(urls, str) else urls), 0
    while batch := list(islice(rest, BATCH)):
        yield at, batch
        at += len(batch)


def _count(total: Pushed, at: int, answer: Any) -> None:
    part = msgspec.convert(answer, Pushed)
    total.new += part.new
    total.seen += part.seen
    total.deep += part.deep
    total.bad = [*total.bad, *(BadEntry(at + entry.line, entry.reason) for entry in part.bad)]


class Client:
    """The API of `skitter serve`, for synchronous code. Thread-safe."""

    def __init__(self, url: str, *, token: str, timeout_s: float = 30.0) -> None:
        from wreq.blocking import Client as Blocking

        self.url = url.rstrip("/")
        self._http = Blocking(**_settings(token, timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def push(
        self, job: str, urls: Iterable[Url], *, priority: int = 0, wait: bool = False
    ) -> Pushed:
        """Add URLs, or requests as dicts. `wait`: while the queue is full, retry later."""
        total = Pushed()
        for at, batch in _batches(urls):
            while True:
                try:
                    answer = self._ask(_push(job, batch, priority))
                except ApiError as error:
                    time.sleep(_pause_s(error, wait=wait))
                else:
                    break
            _count(total, at, answer)
        return total

    def job(self, job: str) -> dict[str, Any]:
        """A job's counts and state: pending, done, dead, state, ..."""
        found: dict[str, Any] = self._ask(_Ask("GET", _job(job)))
        return found

    def create(self, job: str, **options: float | str | bool | None) -> dict[str, Any]:
        """Create a job, with options such as max_pages=1000."""
        made: dict[str, Any] = self._ask(_Ask("POST", "api/jobs", {"job": job, "options": options}))
        return made

    def why(self, job: str, url: str) -> dict[str, Any]:
        """The story of a URL: its state, what it waits for, where it was found."""
        story: dict[str, Any] = self._ask(_Ask("GET", _job(job, "url"), query={"url": url}))
        return story

    def items(self, job: str, *, where: str = "") -> Iterator[dict[str, Any]]:
        """The stored items, read page by page."""
        after: str | None = ""
        while after is not None:
            query = {"after": after, "where": where, "limit": 1000}
            page = self._ask(_Ask("GET", _job(job, "items"), query=query))
            yield from page["rows"]
            after = page["next"]

    def start(self, spider: str, **given: Any) -> dict[str, Any]:
        """Start a run: `start("books", arguments={"kind": "rare"}, fresh=True)`."""
        body = {"spider": spider, "id": secrets.token_hex(5), **given}
        started: dict[str, Any] = self._ask(_Ask("POST", "api/runs", body))
        return started

    def run(self, run: str) -> dict[str, Any]:
        """A run by its id: its state, exit code and report."""
        found: dict[str, Any] = self._ask(_Ask("GET", f"api/runs/{quote(run, safe='')}"))
        return found

    def scrape(self, url: str, **how: Any) -> dict[str, Any]:
        """A page, fetched now: `scrape(url, format=["markdown", "links"], render=True)`. Waits
        until it is there, or cannot be had."""
        found: dict[str, Any] = self._ask(_Ask("POST", "api/scrape", {"url": url, **how}))
        while found["state"] == "waiting":
            found = self._ask(_follow(found))
        return found

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Call any route of the API: `call("POST", "api/jobs/books/pause")`."""
        return self._ask(_Ask(method, path.lstrip("/"), body, query))

    def _ask(self, ask: _Ask) -> Any:
        from wreq import Method

        try:
            method = getattr(Method, ask.method)
            response = self._http.request(method, ask.url(self.url), **ask.options())
            after, body = response.headers.get("retry-after"), response.bytes()
        except Exception as error:
            raise _away(self.url, error) from error
        return _answer(response.status.as_int(), after, bytes(body))


class AsyncClient:
    """The API of `skitter serve`, for code with an event loop."""

    _sleep = staticmethod(asyncio.sleep)

    def __init__(self, url: str, *, token: str, timeout_s: float = 30.0) -> None:
        from wreq import Client as Http

        self.url = url.rstrip("/")
        self._http = Http(**_settings(token, timeout_s))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    async def push(
        self, job: str, urls: Iterable[Url], *, priority: int = 0, wait: bool = False
    ) -> Pushed:
        """Add URLs, or requests as dicts. `wait`: while the queue is full, retry later."""
        total = Pushed()
        for at, batch in _batches(urls):
            while True:
                try:
                    answer = await self._ask(_push(job, batch, priority))
                except ApiError as error:
                    await self._sleep(_pause_s(error, wait=wait))
                else:
                    break
            _count(total, at, answer)
        return total

    async def job(self, job: str) -> dict[str, Any]:
        """A job's counts and state: pending, done, dead, state, ..."""
        found: dict[str, Any] = await self._ask(_Ask("GET", _job(job)))
        return found

    async def create(self, job: str, **options: float | str | bool | None) -> dict[str, Any]:
        """Create a job, with options such as max_pages=1000."""
        ask = _Ask("POST", "api/jobs", {"job": job, "options": options})
        made: dict[str, Any] = await self._ask(ask)
        return made

    async def why(self, job: str, url: str) -> dict[str, Any]:
        """The story of a URL: its state, what it waits for, where it was found."""
        story: dict[str, Any] = await self._ask(_Ask("GET", _job(job, "url"), query={"url": url}))
        return story

    async def items(self, job: str, *, where: str = "") -> AsyncIterator[dict[str, Any]]:
        """The stored items, read page by page."""
        after: str | None = ""
        while after is not None:
            query = {"after": after, "where": where, "limit": 1000}
            page = await self._ask(_Ask("GET", _job(job, "items"), query=query))
            for row in page["rows"]:
                yield row
            after = page["next"]

    async def start(self, spider: str, **given: Any) -> dict[str, Any]:
        """Start a run: `await start("books", arguments={"kind": "rare"}, fresh=True)`."""
        body = {"spider": spider, "id": secrets.token_hex(5), **given}
        started: dict[str, Any] = await self._ask(_Ask("POST", "api/runs", body))
        return started

    async def run(self, run: str) -> dict[str, Any]:
        """A run by its id: its state, exit code and report."""
        found: dict[str, Any] = await self._ask(_Ask("GET", f"api/runs/{quote(run, safe='')}"))
        return found

    async def scrape(self, url: str, **how: Any) -> dict[str, Any]:
        """A page, fetched now: `await scrape(url, format=["markdown", "links"], render=True)`.
        Waits until it is there, or cannot be had."""
        found: dict[str, Any] = await self._ask(_Ask("POST", "api/scrape", {"url": url, **how}))
        while found["state"] == "waiting":
            found = await self._ask(_follow(found))
        return found

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Call any route of the API: `await call("POST", "api/jobs/books/pause")`."""
        return await self._ask(_Ask(method, path.lstrip("/"), body, query))

    async def _ask(self, ask: _Ask) -> Any:
        from wreq import Method

        try:
            method = getattr(Method, ask.method)
            response = await self._http.request(method, ask.url(self.url), **ask.options())
            after, body = response.headers.get("retry-after"), await response.bytes()
        except Exception as error:
            raise _away(self.url, error) from error
        return _answer(response.status.as_int(), after, bytes(body))
