"""What a Scrapy response says about its host, in the frontier's terms."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from skitter.engine.verdict import Follow, Retry, judge_response
from skitter.frontier.delay import Incident
from skitter.frontier.pages import REDIRECT
from skitter.frontier.wire import ms
from skitter.model import Response

if TYPE_CHECKING:
    import scrapy
    from scrapy.http import Response as ScrapyResponse

    from skitter.engine.verdict import Policy
    from skitter.scrapy.mailbox import Entry

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


def learn(entry: Entry, answer: Response, policy: Policy, *, proxied: bool) -> None:
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
    is_refused = any(one.__name__.endswith("ConnectionRefusedError") for one in type(error).mro())
    return Incident.REFUSED if is_refused else 0


def why_unseen(request: scrapy.Request, instead: scrapy.Request) -> str:
    """Why no callback saw the response when a middleware returned a request instead."""
    return AGAIN if instead.url == request.url else f"{REDIRECT}{instead.url}"
