"""Live events, and webhooks."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from skitter.engine.pulse import cancel_all
from skitter.errors import AddressRefused, JobMissing, SkitterError
from skitter.fetch import Guard
from skitter.frontier.jobs import open_job
from skitter.frontier.records.live import Live, is_over, is_place
from skitter.frontier.records.operators import (
    Occasion,
    Share,
    Webhook,
    add_webhook,
    list_webhooks,
    new_webhook,
    remove_webhook,
    without_secrets,
)
from skitter.server.call import Call, check_scope, header, identify
from skitter.server.channels import TICK, TICK_S, message
from skitter.server.problems import Refusal
from skitter.server.route import Removed, Rows
from skitter.sinks.rows import NOT_A_ROW, row_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from skitter.frontier.frontier import Frontier
    from skitter.model import Result
    from skitter.server.channels import Channel, Listener


MEDIA = "text/event-stream"
ITEMS_S = 0.25
LONGEST_S = 600.0  # then browsers reconnect
#: How often to check that the token was not revoked, nor the session ended.
CHECK_S = 2.0
HEADERS = {"content-type": MEDIA, "x-accel-buffering": "no"}


class Listen(msgspec.Struct, frozen=True):
    """The job; without one, the list of all jobs."""

    job: str = ""


async def events(call: Call, query: Listen) -> Response:
    """Live events, as server-sent events.

    With a job: `overview` once a second while it changes, `log` for each line of its log, and
    `change` for each change that is noted from now on, as in `/changes`, with long values cut.
    Without one: `jobs`. `away` and `back` are about the Redis server; `gone`: the job was purged;
    `tick`: nothing new (every 5 s, so that silence means that the server hangs).
    `Last-Event-ID` is the id of the last `log` that the client received.
    """
    hub = call.site.events
    if query.job and not call.token.may_see(query.job):
        raise JobMissing(query.job, [])
    if query.job and query.job not in hub.channels and not hub.presence.away:
        # Raise before the stream starts, while we can still answer with a problem.
        await hub.presence.through(open_job(call.site.server, query.job))
    return EventStream(call, query.job)


class EventStream(Response):
    """An answer that does not end."""

    def __init__(self, call: Call, job: str) -> None:
        super().__init__(headers=HEADERS)
        self.call, self.job = call, job
        self.after = header(call.request.scope, b"last-event-id")
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        jobs = () if self.job else tuple(self.call.token.jobs)
        with self.call.site.events.listening(self.job, jobs) as (channel, listener):
            tasks = [
                asyncio.create_task(self._send(channel, listener, send)),
                asyncio.create_task(listener.is_slow.wait()),
                asyncio.create_task(_disconnected(receive)),
                asyncio.create_task(_turned_away(self.call)),
            ]
            await asyncio.wait(tasks, timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
            await cancel_all(tasks)
        if not listener.is_slow.is_set():
            await send({"type": "http.response.body", "body": b""})

    async def _send(self, channel: Channel, listener: Listener, send: Send) -> None:
        async def body(part: bytes) -> None:
            await send({"type": "http.response.body", "body": part, "more_body": True})

        await body(b"retry: 1000\n\n")
        with suppress(SkitterError):  # the client reconnects
            async for part in channel.missed(listener, self.after):  # new messages queue meanwhile
                await body(part)
            while messages := await listener.waiting.get():
                await body(messages)


async def _turned_away(call: Call) -> None:
    """Ends when the caller may no longer read. While Redis is away, nobody is turned away."""
    while True:
        await asyncio.sleep(CHECK_S)
        try:
            check_scope(await identify(call.request, call.site.keyring), "read")
        except Refusal:
            return
        except SkitterError:
            continue


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Found(Response):
    """Items as they are found, until the crawl is over."""

    def __init__(self, call: Call, frontier: Frontier) -> None:
        super().__init__(headers=HEADERS)
        self.call, self.frontier = call, frontier
        self.after = header(call.request.scope, b"last-event-id")
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        tasks = [
            asyncio.create_task(self._send(send)),
            asyncio.create_task(_disconnected(receive)),
            asyncio.create_task(_turned_away(self.call)),
        ]
        await asyncio.wait(tasks, timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
        await cancel_all(tasks)
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, send: Send) -> None:
        with suppress(SkitterError):  # the client reconnects
            async for part in self._parts():
                await send({"type": "http.response.body", "body": part, "more_body": True})

    async def _parts(self) -> AsyncIterator[bytes]:
        live = await Live.open(self.frontier, self.after if is_place(self.after) else "")
        yield b"retry: 1000\n\n" + (message("gap", {}) if live.has_gap else b"")
        yield b"id: %b\n%b" % (live.place.encode(), message("begin", {}))
        said_at = time.monotonic()
        while True:
            over = await is_over(self.frontier)  # asked first: then nothing comes after
            while found := await live.read():
                yield b"".join(_item(*result) for result in found)
                said_at = time.monotonic()
            if over:
                stats = await self.frontier.stats()
                yield message("over", {"items": stats.stored + stats.items})
                return
            if time.monotonic() - said_at > TICK_S:
                yield TICK
                said_at = time.monotonic()
            await asyncio.sleep(ITEMS_S)


def _item(place: str, result: Result) -> bytes:
    """Nothing for what no output takes."""
    try:
        line = row_of(result).line
    except NOT_A_ROW:
        return b""
    return b"id: %b\nevent: item\ndata: %b\n\n" % (place.encode(), line)


async def live_items(call: Call) -> Response:
    """The items of a job as they are found, as server-sent events.

    `item` is a row, as in `/items`; `over`: nothing is left to fetch, and nobody works on the job;
    `tick`: nothing new (every 5 s). After a pause of up to ten minutes, `Last-Event-ID` goes on
    where the client was, with nothing lost or sent twice; `gap`: some items are not known any more.
    """
    return Found(call, await call.frontier())


class NewHook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to post messages, and about what; without `on`, about everything."""

    url: str
    on: list[Occasion] = []
    dead: int = 100
    failures: Share = 0.5
    blocked: Share = 0.2


class WhichHook(msgspec.Struct, frozen=True):
    """The id, as listed."""

    id: str


async def webhooks(call: Call) -> Rows[Webhook]:
    """The webhooks of the job, without their secrets."""
    found = await list_webhooks(await call.frontier())
    return Rows(rows=[without_secrets(hook) for hook in found])


async def webhook_add(call: Call, body: NewHook) -> Webhook:
    """Post messages about the job to an address. The secret that signs them is shown only now."""
    try:
        Guard().check_url(body.url)
    except AddressRefused as error:
        hint = "`skitter webhook add --allow-private` accepts it."
        raise Refusal(422, error.reason.partition(":")[0], field="url", hint=hint) from None
    limits = {"dead": body.dead, "failures": body.failures, "blocked": body.blocked}
    hook = new_webhook(body.url, body.on, **limits)
    await add_webhook(await call.frontier(), hook)
    return hook


async def webhook_remove(call: Call, query: WhichHook) -> Removed:
    """Remove a webhook."""
    if not await remove_webhook(await call.frontier(), query.id):
        raise Refusal(404, f"there is no webhook {query.id!r}.", field="id")
    return Removed(removed=True)
