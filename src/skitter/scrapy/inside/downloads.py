"""Downloads: when they leave, what the answers say, and their figures."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import msgspec
from scrapy import Request, signals
from scrapy.http import Response as HttpResponse

from skitter.engine.departures import PATIENCE_AFTER_REDIRECT_S, Gate, TooEarly
from skitter.engine.verdict import Follow, Retry, judge_response
from skitter.frontier.delays import Incident
from skitter.frontier.sites.learned import REDIRECT
from skitter.frontier.transport.messages import ms
from skitter.model import Response
from skitter.observe.metrics import status_class

if TYPE_CHECKING:
    import scrapy
    from scrapy.crawler import Crawler
    from scrapy.http import Response as ScrapyResponse

    from skitter.engine.verdict import Policy
    from skitter.scrapy.node.mailbox import Mailbox, OpenLease
    from skitter.scrapy.node.node import Node


AGAIN_S = 1.0


class Downloads:
    """Holds requests back until their host's next turn. Runs in the engine's thread.

    The last step before sending asks the gate of the lease, on the node's thread; if the engine's
    thread resumes too late for that turn, it asks again. robots.txt and files use the gate of an
    active page of their host.
    """

    def __init__(self, node: Node, mailbox: Mailbox) -> None:
        self._node, self._mailbox = node, mailbox
        self._gates: WeakKeyDictionary[Request, Gate] = WeakKeyDictionary()

    async def leave(self, request: Request) -> None:
        """Wait until it may be sent. Raises TooEarly if its lease should be returned instead."""
        entry = self._mailbox.active.get(request)
        gate = self._own_gate(entry) if entry else self._gate_at(_slot(request))
        if gate is None:
            return
        self._gates[request] = gate
        await self._pass(gate, waits=entry is None)
        while not gate.is_still_on_time():
            await self._pass(gate, waits=entry is None)

    def arrive(self, request: Request) -> None:
        """The exchange is over, with or without a response."""
        if gate := self._gates.pop(request, None):
            gate.arrive(request.url)

    async def _pass(self, gate: Gate, *, waits: bool) -> None:
        while True:
            try:
                return await self._node.wait_for(gate.leave())
            except TooEarly:
                if not waits:
                    raise
            await self._node.wait_for(asyncio.sleep(AGAIN_S))

    def _own_gate(self, entry: OpenLease) -> Gate | None:
        if entry.gate is None:
            entry.gate = self._node.departures.gate(entry.lease)
        return entry.gate

    def _gate_at(self, host: str) -> Gate | None:
        """For a request without a lease: the unused turn of a page, or an extra one."""
        pages = [entry for entry in self._mailbox.active.values() if entry.lease.host == host]
        polite = [page for page in pages if self._own_gate(page)]
        if not polite:
            return None
        unused = [entry for entry in polite if entry.gate and not entry.gate.was_used]
        gate = unused[0].gate if unused else self._one_more(polite[0])
        if gate:
            gate.patience_s = PATIENCE_AFTER_REDIRECT_S
        return gate

    def _one_more(self, entry: OpenLease) -> Gate | None:
        lease = entry.lease
        if lease.pace is None:
            return None
        used = msgspec.structs.replace(lease.pace, moment_ms=0)
        return self._node.departures.gate(msgspec.structs.replace(lease, pace=used))


def _slot(request: Request) -> str:
    return str(request.meta.get("download_slot", ""))


AGAIN = "a Scrapy middleware asked for it again"


def opened(answer: ScrapyResponse, request: scrapy.Request) -> Response:
    """Scrapy's response as one of ours."""
    return Response(
        url=answer.url,
        status=answer.status,
        headers=tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, values in answer.headers.items()
            for value in values
        ),
        body=answer.body,
        elapsed_s=float(request.meta.get("download_latency") or 0.0),
    )


def learn(entry: OpenLease, answer: Response, policy: Policy, *, proxied: bool) -> None:
    """Record the latency, whether the host asked for a rest, and whether this is a block page.
    Called twice, as a response from the downloader may still be compressed."""
    entry.answer, feedback = answer, entry.feedback
    if entry.lease.pace and answer.status < 500:
        feedback.latency_ms = ms(answer.elapsed_s)
    verdict = judge_response(entry.lease.request, answer, policy, now=time.time())
    if isinstance(verdict, Retry) and verdict.blocked:
        entry.blocked = verdict.reason
    if proxied:  # the host's reaction was to the proxy, not to us
        return
    if isinstance(verdict, Retry | Follow) and verdict.rest_s:
        feedback.rest_ms = ms(verdict.rest_s)
    if isinstance(verdict, Retry) and verdict.of_host and verdict.incident:
        feedback.incident = verdict.incident


def incident_of(error: Exception) -> int:
    """By name: Scrapy, Twisted and Python each have a ConnectionRefusedError."""
    is_refused = any(kind.__name__.endswith("ConnectionRefusedError") for kind in type(error).mro())
    return Incident.REFUSED if is_refused else 0


def why_unseen(request: scrapy.Request, instead: scrapy.Request) -> str:
    """Why no callback saw the response when a middleware returned a request instead."""
    return AGAIN if instead.url == request.url else f"{REDIRECT}{instead.url}"


class Exchanges:
    """Records each request that the downloader finishes, for the figures; the node's thread sends
    them."""

    def __init__(
        self, crawler: Crawler, mailbox: Mailbox, downloads: Downloads, policy: Policy
    ) -> None:
        self._mailbox, self._downloads, self._policy = mailbox, downloads, policy
        self._answered: WeakSet[Request] = WeakSet()
        crawler.signals.connect(self._note_answer, signals.response_downloaded)
        crawler.signals.connect(self._note_end, signals.request_left_downloader)

    def _note_answer(self, response: HttpResponse, request: Request, **_: Any) -> None:
        self._answered.add(request)
        outcome = "ok" if response.status < 400 else "http_error"
        status = status_class(response.status)
        latency_s = request.meta.get("download_latency")
        took_ms = None if latency_s is None else 1000 * float(latency_s)
        self._add(request, outcome, status, size=len(response.body), ms=took_ms)
        if entry := self._mailbox.active.get(request):
            self._learn(entry, response, request)

    def note_result(self, entry: OpenLease, result: Any, request: Request) -> None:
        """For `why`. By now a response is decompressed, or it came from a cache."""
        if isinstance(result, HttpResponse) and entry.answer is not None:
            self._learn(entry, result, request)
        elif isinstance(result, HttpResponse):
            entry.answer = opened(result, request)
        elif isinstance(result, Request):
            entry.note = why_unseen(request, result)
        else:
            entry.is_returned = isinstance(result.value, TooEarly)

    def _learn(self, entry: OpenLease, response: HttpResponse, request: Request) -> None:
        learn(entry, opened(response, request), self._policy, proxied=bool(_route(request)))

    def note_failure(self, request: Request, error: Exception) -> None:
        """Sending failed, or no response came."""
        if (entry := self._mailbox.active.get(request)) and not _route(request):
            entry.feedback.incident = incident_of(error)

    def _note_end(self, request: Request, **_: Any) -> None:
        self._downloads.arrive(request)
        if request in self._answered:
            self._answered.discard(request)
        else:
            self._add(request, "error", "none")

    def _add(
        self, request: Request, outcome: str, status: str, *, size: int = 0, ms: float | None = None
    ) -> None:
        exchange = (outcome, status, _host(request), _route(request), "")
        self._mailbox.exchanges.append((exchange, size, ms))


def _host(request: Request) -> str:
    return str(request.meta.get("download_slot", ""))


def _route(request: Request) -> str:
    """Not the proxy's address, which may contain a password."""
    return "proxy" if request.meta.get("proxy") else ""
