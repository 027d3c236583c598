"""URLs: push them, check them, explain one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from skitter.errors import JobClosed, JobMissing, UsageError
from skitter.explain import explain_url
from skitter.frontier.audit.auditor import audit
from skitter.frontier.feed import parse_message, request_of
from skitter.frontier.jobs import open_job
from skitter.frontier.requests import Offer
from skitter.frontier.transport.messages import NOT_PLAIN
from skitter.model import Added, BadEntry, Pushed, Request
from skitter.redact import redact_tree
from skitter.server import endpoint
from skitter.server.call import Call, Query
from skitter.server.presence import JobPushes
from skitter.server.problems import Refusal

NDJSON = "application/x-ndjson"
BATCH = 500
LINE_BYTES = 2**20
BAD_SHOWN = 100

#: A URL, or the fields of a request.
Entry = str | dict[str, Any]


class Urls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """URLs, or requests with any of url, method, headers, body (text), meta, priority, ..."""

    urls: list[Entry]
    priority: int = 0  # of the URLs given as plain text


_decode = msgspec.json.Decoder(Urls).decode


async def push(call: Call) -> Pushed:
    """Add URLs to a job. Known ones are not added again.

    Send JSON, or lines with a URL or a JSON request each. The answer lists what cannot be crawled;
    the rest is added. 429: the queue is full; push the same again later.
    """
    job = call.path("job")
    pushing = Pushing(await call.site.pushes.to(job))
    try:
        if endpoint.media_type(call.request) == NDJSON:
            await pushing.stream(_lines(call))
        else:
            body = await endpoint.read_json(call, _decode)
            await pushing.many(body.urls, body.priority)
    except JobMissing:
        call.site.pushes.forget(job)
        raise
    return pushing.result()


class Pushing:
    """One push in progress."""

    def __init__(self, pushes: JobPushes) -> None:
        self.pushes = pushes
        self.line = 0
        self.new = self.seen = self.deep = 0
        self.bad: list[BadEntry] = []

    async def many(self, urls: list[Entry], priority: int) -> None:
        """Add in batches, so that other calls get their turn."""
        for at in range(0, len(urls), BATCH):
            offers = [self._offer(entry, priority) for entry in urls[at : at + BATCH]]
            await self.add([offer for offer in offers if offer])

    async def stream(self, lines: AsyncIterator[bytes]) -> None:
        part: list[Offer] = []
        async for line in lines:
            if offer := self._offer(line, 0):
                part.append(offer)
            if len(part) >= BATCH:
                await self.add(part)
                part = []
        await self.add(part)

    def result(self) -> Pushed:
        """Raises Refusal if none of the URLs can be crawled."""
        if self.bad and not self.new + self.seen + self.deep:
            first = self.bad[0]
            more = f" (and {self.line - 1:,} more)" if self.line > 1 else ""
            raise Refusal(422, f"{first.reason}{more}", field=f"urls[{first.line - 1}]")
        return Pushed(new=self.new, seen=self.seen, deep=self.deep, bad=self.bad)

    def _offer(self, entry: Entry | bytes, priority: int) -> Offer | None:
        self.line += 1
        try:
            return self.pushes.frontier.offer(_request(entry, priority))
        except (UsageError, *NOT_PLAIN) as error:
            if len(self.bad) < BAD_SHOWN:
                self.bad.append(BadEntry(self.line, str(error)))
            return None

    async def add(self, offers: list[Offer]) -> None:
        if not offers:
            return
        answers = await self.pushes.add(offers)
        self.new += answers.count(Added.NEW)  # a Counter would hash each in Python: slower
        self.seen += answers.count(Added.SEEN)
        self.deep += answers.count(Added.DEEP)
        frontier = self.pushes.frontier
        if Added.CLOSED in answers:
            raise JobClosed(frontier.job, (await frontier.stats()).state)
        if Added.FULL in answers:
            raise await frontier.full(added=self.new)


def _request(entry: Entry | bytes, priority: int) -> Request:
    if isinstance(entry, str):
        return Request(entry, priority=priority)
    if isinstance(entry, dict):
        return request_of(entry)
    return (
        Request(msgspec.json.decode(entry, type=str)) if entry[:1] == b'"' else parse_message(entry)
    )


async def _lines(call: Call) -> AsyncIterator[bytes]:
    """Yield the non-empty lines of the body, holding no more than one line in memory."""
    rest = b""
    async for part in _parts(call):
        *whole, rest = (rest + part).split(b"\n")
        for line in filter(None, map(bytes.strip, whole)):
            yield line
        if len(rest) > LINE_BYTES:
            raise Refusal(413, f"a line is over {LINE_BYTES:,} bytes.")
    if last := rest.strip():
        yield last


async def _parts(call: Call) -> AsyncIterator[bytes]:
    stream: AsyncIterator[bytes] = call.request.stream()
    while True:
        try:
            async with asyncio.timeout(endpoint.BODY_S):
                yield await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refusal(408, f"nothing arrived for {endpoint.BODY_S:g} s.") from None


class OfUrl(Query, frozen=True, kw_only=True):
    """A URL or a fingerprint; the method and body of a request that is not a plain GET."""

    url: str
    method: str = "GET"
    body: str = ""


async def story(call: Call, query: OfUrl) -> dict[str, Any]:
    """The story of a URL: its state, what it waits for, and where it was found."""
    frontier = await call.frontier()
    explanation = await explain_url(
        frontier, query.url, method=query.method, body=query.body.encode()
    )
    found: dict[str, Any] = redact_tree(msgspec.to_builtins(explanation))
    return found


async def audit_job(call: Call) -> dict[str, Any]:
    """Check that every URL is accounted for. Reads the whole job, in small steps."""
    frontier = await open_job(call.site.server, call.path("job"), as_found=True)
    return (await audit(frontier)).document()
