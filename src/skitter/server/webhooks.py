"""Webhooks: signed messages when a crawl is over or in trouble, delivered at least once.

Any number of servers may run; the one that holds a job's lease sends. Deliveries are stored on the
frontier's server before they are sent, so that another server can take over if this one dies.
Whoever writes there must not use us to talk to private hosts: which of them get messages is up to
this process (`fetch.allow_hosts`), and a message is built when it is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from skitter.crawl.watch import Overview, Watcher
from skitter.engine.pulse import cancel_all
from skitter.errors import AddressRefused, FetchError, SkitterError, shorten
from skitter.fetch import FetchOptions, Guard, HttpFetcher
from skitter.fetch.http.guard import authority_of
from skitter.frontier.jobs import for_each_job, open_job
from skitter.frontier.records import operators as store
from skitter.frontier.records.health import TroubleKind, find_bad
from skitter.frontier.records.operators import Occasion, Webhook, WebhookMessage
from skitter.frontier.transport.messages import side_by_side
from skitter.frontier.workers import log as log_event
from skitter.frontier.workers import log_lost_machines
from skitter.model import Request
from skitter.observe.report import some
from skitter.redact import redact_text
from skitter.server.problems import public
from skitter.sinks.receiver import signature

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.transport.connection import Server

EVERY_S = 5.0
#: Failure and block rates cover the last WINDOW_S, if there were at least MIN_ATTEMPTS attempts.
WINDOW_S, MIN_ATTEMPTS = 60.0, 20
FIRST_S, LONGEST_S, MAX_TRIES = 5.0, 3600.0, 20  # half a day in total
AT_ONCE = 50
#: The frontier's server restarts in less.
AWAY_S = 60.0
LAST_PASS_S = 10.0
TIMEOUTS = FetchOptions(total_timeout_s=10.0)
log = logging.getLogger("skitter.server")


#: What a job suffers from -> the occasion of a message.
TROUBLES: dict[TroubleKind, Occasion] = {
    "stuck": "stuck",
    "no workers": "no workers",
    "output away": "output",
    "server full": "stuck",
    "no handler": "no handler",
    "machine lost": "machine lost",
}


def occasions(
    look: Overview, before: Overview | None, hook: Webhook, bad: Sequence[str]
) -> dict[Occasion, str]:
    """What to report now, with the text. Pure."""
    found: dict[Occasion, str] = {}
    if look.status == "finished":
        found["finish"] = f"{some(look.done, 'page')}, {some(look.dead, 'dead letter')}"
    for trouble in look.troubles:
        on, text = TROUBLES[trouble.kind], f"{trouble.says}: {trouble.command}"
        found[on] = f"{found[on]}; {text}" if on in found else text
    if look.dead >= hook.dead:
        found["dead"] = some(look.dead, "dead letter")
    if bad:
        found["quality"] = "; ".join(bad)
    if before and before.done <= look.done:
        done, blocked = look.done - before.done, look.blocked - before.blocked
        failed = look.retried + look.dead - before.retried - before.dead
        if _is_share(failed, done + failed, hook.failures):
            found["failures"] = f"{failed:,} of the last {done + failed:,} attempts failed"
        if _is_share(blocked, done + blocked, hook.blocked):
            found["blocked"] = f"{blocked:,} of the last {done + blocked:,} were block pages"
    return {on: text for on, text in found.items() if on in hook.on}


def _is_share(part: int, of: int, limit: float) -> bool:
    return of >= MIN_ATTEMPTS and part / of >= limit


def wait_s(tries: int, chance: float) -> float:
    """The delay before the next try: exponential, with jitter."""
    return min(LONGEST_S, FIRST_S * 2.0**tries) * (0.5 + chance / 2)


@asynccontextmanager
async def sending(server: Server, allow_hosts: Iterable[str] = ()) -> AsyncIterator[Sender]:
    """Send inside the block; at its end, send once more what is due."""
    sender = Sender(server, Guard(frozenset(allow_hosts)))
    task = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        await cancel_all([task])
        with suppress(SkitterError, TimeoutError):
            async with asyncio.timeout(LAST_PASS_S):
                await sender.look_at_all()
                await sender.leave()


@dataclass(slots=True)
class Sender:
    """Watches the jobs that have webhooks, and delivers."""

    server: Server
    guard: Guard = field(default_factory=Guard)
    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    _watcher: Watcher = field(init=False)
    _before: dict[str, Overview] = field(default_factory=dict)
    _held: dict[str, Frontier] = field(default_factory=dict)
    _hooks: dict[str, list[Webhook]] = field(default_factory=dict)  # as read last
    _away_since: float | None = None
    _told_away: set[str] = field(default_factory=set)  # ids of webhooks

    def __post_init__(self) -> None:
        self._watcher = Watcher(self.server, names_folders=False)

    async def run(self) -> None:
        """Run forever, even while the frontier's server is away."""
        while True:
            try:
                await self.look_at_all()
                self._away_since, self._told_away = None, set()
            except SkitterError as error:
                await self.tell_away(public(error), time.monotonic())
            await asyncio.sleep(EVERY_S)

    async def tell_away(self, why: str, now: float) -> None:
        """Send what cannot be stored: that the frontier's server is away. Only to the webhooks of
        jobs whose messages we send, as read before; each gets it once."""
        self._away_since = now if self._away_since is None else self._away_since
        if now - self._away_since < AWAY_S:
            return
        at, detail = time.time(), f"the frontier's server is away: {redact_text(why)}"
        for job, hooks in self._hooks.items():
            look = msgspec.structs.replace(self._before[job], at=at)
            for hook in hooks:
                if "away" in hook.on and hook.id not in self._told_away:
                    message = Message(hook, _delivery(hook, "away", detail, look), look)
                    if not await post(message, self.guard, at=int(at)):
                        self._told_away.add(hook.id)

    async def leave(self) -> None:
        """End our leases, so that others need not wait until they expire."""
        for frontier in self._held.values():
            await store.end_lease(frontier, self.name)

    async def look_at_all(self) -> None:
        async def look(job: str) -> None:
            await self.look_at(await open_job(self.server, job))

        await for_each_job(self.server, look, partial(log.debug, "webhooks of %s: %s"))

    async def look_at(self, frontier: Frontier) -> None:
        await log_lost_machines(frontier, self.name)
        hooks = await store.list_webhooks(frontier)
        self._hooks.pop(frontier.job, None)
        if not hooks or not await store.hold_lease(frontier, self.name):
            return
        self._held[frontier.job] = frontier
        look = await self._watcher.look_at(frontier)
        bad = await find_bad(frontier)
        before = self._before.setdefault(frontier.job, look)
        self._hooks[frontier.job] = hooks
        for hook in hooks:
            hook = await self._tell_changes(frontier, hook, look)
            await self._notice(frontier, hook, look, occasions(look, before, hook, bad))
        if look.at - before.at > WINDOW_S:
            self._before[frontier.job] = look
        by_id = {hook.id: hook for hook in hooks}
        due = [
            delivery
            for delivery in await store.list_deliveries(frontier)
            if delivery.next_at <= look.at
        ]
        work = (
            self._deliver(frontier, by_id.get(message.webhook), message, look)
            for message in due[:AT_ONCE]
        )
        await side_by_side(work)

    async def _tell_changes(self, frontier: Frontier, hook: Webhook, look: Overview) -> Webhook:
        """Each time there are more. The message is stored first, under a name of its own: killed in
        between, it is stored again and sent once."""
        if "change" not in hook.on or look.changes == hook.changes:
            return hook
        if hook.changes >= 0 and (more := look.changes - hook.changes) > 0:
            detail = f"{some(more, 'change')}: skitter changes {frontier.job}"
            message = _delivery(hook, "change", detail, look)
            name = f"change-{hook.id}-{hook.changes}"
            await store.save_delivery(frontier, msgspec.structs.replace(message, id=name))
        told = msgspec.structs.replace(hook, changes=look.changes)
        await store.save_webhook(frontier, told)
        return told

    async def _notice(
        self, frontier: Frontier, hook: Webhook, look: Overview, now: dict[Occasion, str]
    ) -> None:
        """Announce a condition once; again only if it ended in between."""
        for on, detail in now.items():
            if on not in hook.told:
                await store.save_delivery(frontier, _delivery(hook, on, detail, look))
        if set(now) != set(hook.told):
            await store.save_webhook(frontier, msgspec.structs.replace(hook, told=list(now)))

    async def _deliver(
        self, frontier: Frontier, hook: Webhook | None, message: WebhookMessage, look: Overview
    ) -> None:
        now = await frontier.server_time()
        problem = await post(Message(hook, message, look), self.guard, at=int(now)) if hook else ""
        if not problem:
            await store.end_delivery(frontier, message)
            return
        tries = message.tries + 1
        if tries >= MAX_TRIES:
            text = f"{message.on!r} was not delivered after {tries} tries: {problem}"
            await log_event(frontier, "error", self.name, f"webhook {message.webhook}: {text}")
            await store.end_delivery(frontier, message)
            return
        if tries == 1:
            text = f"webhook {message.webhook}: {message.on!r} was not delivered yet: {problem}"
            await log_event(frontier, "warning", self.name, text)
        next_at = now + wait_s(message.tries, random.random())
        later = msgspec.structs.replace(message, tries=tries, next_at=next_at)
        await store.save_delivery(frontier, later)


class _Said(msgspec.Struct, frozen=True):
    """What is kept of a stored message."""

    at: float = 0.0
    detail: str = ""


class Message(NamedTuple):
    """A delivery, and what it takes to write it."""

    hook: Webhook
    delivery: WebhookMessage
    look: Overview

    def body(self) -> bytes:
        try:
            said = msgspec.json.decode(self.delivery.body, type=_Said)
        except msgspec.MsgspecError:
            said = _Said()
        return _body(self.delivery, said, self.look)


def _body(message: WebhookMessage, said: _Said, look: Overview) -> bytes:
    overview = msgspec.structs.replace(look, workers=(), silent=(), log=())
    detail = shorten(said.detail, 2000)
    head: dict[str, Any] = {
        "id": message.id,
        "on": message.on,
        "job": look.job,
        "at": said.at or look.at,
    }
    return msgspec.json.encode({**head, "detail": detail, "overview": overview})


def _delivery(hook: Webhook, on: Occasion, detail: str, look: Overview) -> WebhookMessage:
    message = WebhookMessage(
        id=secrets.token_hex(8), webhook=hook.id, on=on, body="", next_at=look.at
    )
    body = _body(message, _Said(look.at, detail), look).decode()
    return msgspec.structs.replace(message, body=body)


async def post(message: Message, guard: Guard, *, at: int) -> str:
    """Return what went wrong; empty: delivered. Redirects are not followed."""
    hook, body = message.hook, message.body()
    headers = {
        "content-type": "application/json",
        "skitter-event": message.delivery.on,
        "skitter-delivery": message.delivery.id,
        "skitter-signature": signature(hook.secret, at, body),
    }
    request = Request(hook.url, method="POST", headers=headers, body=body)
    try:
        whom = authority_of(hook.url)
        async with HttpFetcher(TIMEOUTS, guard=guard) as fetcher:
            answer = await fetcher.fetch(request)
    except AddressRefused as error:
        why = error.reason.partition(": to ")[0]
        return f"{why}: to allow it, set SKITTER_ALLOW_HOSTS={whom.host_port} where the server runs"
    except FetchError as error:  # its text has all of the address
        return f"{whom.host}: {redact_text(error.reason)}"
    except SkitterError as error:
        return str(error)
    return "" if 200 <= answer.status < 300 else f"it answered {answer.status}"
