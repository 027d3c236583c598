"""A page on request: it goes through the frontier, as all pages do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

import msgspec

from skitter.errors import JobMissing
from skitter.frontier.feed import ring
from skitter.model import Lane, Request
from skitter.scrape import ID, JOB, WANTED, Format, handler_for
from skitter.server.answers import SHAPE, Answer
from skitter.server.api.push import Pushing
from skitter.server.call import Call, Query
from skitter.server.problems import Refusal
from skitter.urls import identify

NOBODY = (
    "no worker fetches pages on request: start some with `skitter serve --workers 2`, or on any "
    "machine with `skitter worker skitter.scrape --keep-alive`."
)
NO_BROWSER = "no worker that fetches pages on request has a browser: docs/howto/browser.md."
UNKNOWN = "there is no such page, or its answer is older than ten minutes: ask again."
LATER_S = 2

Seconds = Annotated[float, msgspec.Meta(ge=0, le=60)]


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page, what to say of it, and how long to wait for it. `render`: in a browser."""

    url: str
    format: list[Format] | Format = Format.MARKDOWN
    render: bool = False
    wait_s: Seconds = 20.0
    priority: int = 0

    @property
    def formats(self) -> list[Format]:
        return self.format if isinstance(self.format, list) else [self.format]


class Wait(Query, frozen=True, kw_only=True):
    """`wait_s`: how long to wait for the answer."""

    wait_s: Seconds = 0.0


async def scrape(call: Call, body: Wanted) -> Answer:
    """Fetch a page, and answer with what it says.

    202: it takes longer than `wait_s`; `GET /api/scrape/ID` has it later, for ten minutes. 503: no
    worker is there for it.
    """
    _check_token(call)
    identify(body.url)
    site = call.site
    try:
        pushing = Pushing(await site.pushes.to(JOB))
        frontier = pushing.pushes.frontier
        there = await site.answers.handlers(frontier)
        handler = handler_for(body.formats, render=body.render)
        if handler not in there:
            raise Refusal(503, NO_BROWSER if there else NOBODY, retry_after_s=LATER_S)
        with site.answers.expecting() as (id, answer):
            meta = {ID: id, WANTED: [str(one) for one in body.formats]}
            lane: Lane = "" if handler == "plain" else "browser"
            request = Request(
                body.url, handler=handler, lane=lane, meta=meta, unique=id, priority=body.priority
            )
            await pushing.add([frontier.offer(request)])
            await ring(frontier)
            with suppress(TimeoutError):
                return await asyncio.wait_for(answer, body.wait_s)
        return _tell(call, await site.answers.later(frontier, id, body.url))
    except JobMissing:
        site.pushes.forget(JOB)
        raise Refusal(503, NOBODY, retry_after_s=LATER_S) from None


async def scraped(call: Call, query: Wait) -> Answer:
    """The answer to an earlier call. 202: it is not there yet."""
    _check_token(call)
    id = call.path("id")
    try:
        frontier = (await call.site.pushes.to(JOB)).frontier
    except JobMissing:
        raise Refusal(404, UNKNOWN) from None
    is_id = SHAPE.fullmatch(id)
    found = await call.site.answers.follow(frontier, id, query.wait_s) if is_id else None
    if found is None:
        raise Refusal(404, UNKNOWN, field="id")
    return _tell(call, found)


def _tell(call: Call, answer: Answer) -> Answer:
    if answer.state == "waiting":
        call.is_later = True
        call.headers["location"] = f"/api/scrape/{answer.id}"
    return answer


def _check_token(call: Call) -> None:
    if not call.token.may_see(JOB):
        jobs = ", ".join(call.token.jobs)
        raise Refusal(403, f"your token is for the jobs {jobs}, and this is the job {JOB}.")
