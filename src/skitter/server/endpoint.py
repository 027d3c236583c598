"""Turns a row of the table of routes into an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from skitter.errors import InfrastructureError, SkitterError
from skitter.server import protocol
from skitter.server.call import (
    Call,
    check_all_jobs,
    check_job,
    check_scope,
    header,
    identify,
    note_call,
)
from skitter.server.problems import MEDIA, Refusal, bad_input, problem_of, retry_after_s
from skitter.server.route import JSON, head_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from skitter.server.route import Route
    from skitter.server.site import Site

T = TypeVar("T")

BODY_BYTES = 10 * 2**20
BODY_S = 30.0
encode = msgspec.json.Encoder().encode
log = logging.getLogger("skitter.server")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Checks a call and sends the answer or the problem."""

    route: Route
    site: Site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if response := await self._answer_or_refuse(Request(scope, receive)):
            with suppress(ClientDisconnect):
                await response(scope, receive, send)

    async def _answer_or_refuse(self, request: Request) -> Response | None:
        """None: already sent, or the client has gone."""
        try:
            return await self._answer(request)
        except (SkitterError, Refusal) as error:
            if isinstance(error, InfrastructureError) and not self.site.presence.away:
                log.warning("%s %s: %s", self.route.method, self.route.path, error)
            return refuse(error)
        except ClientDisconnect:
            return None
        except Exception as error:
            log.exception("%s %s", self.route.method, self.route.path)
            return refuse(error)

    async def _answer(self, request: Request) -> Response | None:
        call = Call(self.site, request, protocol.take_cycle(request.scope))
        values: dict[str, Any] = {}
        if self.route.scope:
            call.caller = await identify(request, self.site.keyring)
            check_scope(call.caller, self.route.scope)
            if (job := request.path_params.get("job")) is not None:
                check_job(call.caller, job)
            elif self.route.all_jobs:
                check_all_jobs(call.caller)
        if self.route.query:
            values["query"] = read_query(request, self.route.query)
        if self.route.body:
            values["body"] = await read_json(call, self.route.decode)
        is_change = self.route.scope == "operate" and self.route.method != "GET"
        is_noted = is_change and not self.route.notes_itself
        act = self._act_and_note if is_noted else self.route.answer
        answering = act(call, **values)
        if not self.route.knows_away:
            answering = self.site.presence.through(answering)
        answer = await answering
        if isinstance(answer, Response):
            return answer
        status = 202 if call.is_later else self.route.status
        if call.cycle is None or call.headers:
            return Response(encode(answer), status, call.headers, JSON)
        protocol.answer(call.cycle, head_of(status), encode(answer))
        return None

    async def _act_and_note(self, call: Call, **values: Any) -> Any:
        answer = await self.route.answer(call, **values)
        await note_call(call, self.route.name, values)
        return answer


def refuse(error: Exception) -> Response:
    """The answer to a call that failed."""
    problem, after_s = problem_of(error), retry_after_s(error)
    headers = {} if after_s is None else {"retry-after": str(after_s)}
    if problem.status == 408:
        headers["connection"] = "close"
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(encode(problem), problem.status, headers, MEDIA)


def read_query(request: Request, kind: Any) -> Any:
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise bad_input(error) from None


async def read_json(call: Call, decode: Callable[[bytes], T]) -> T:
    """Read and decode the body."""
    if media_type(call.request) != JSON:
        raise Refusal(415, f"send the body as JSON, with `content-type: {JSON}`.")
    body = await read_body(call)
    try:
        return decode(body)
    except msgspec.MsgspecError as error:
        raise bad_input(error, _bad_key(body, decode)) from None
    except RecursionError:
        raise Refusal(422, "the body is nested too deeply.") from None


async def read_body(call: Call) -> bytes:
    """All of it, if it is not too long and not too slow."""
    body = protocol.body_of(call.cycle) if call.cycle else None
    if body is None:
        try:
            body = await asyncio.wait_for(_receive(call.request), BODY_S)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {BODY_S:g} s.") from None
    _check_size(body)
    return body


def _bad_key(body: bytes, decode: Callable[[bytes], Any]) -> str:
    """Find the key with the wrong value: msgspec does not name it."""
    try:
        table = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return ""
    for key in table if isinstance(table, dict) else ():
        try:
            decode(encode({key: table[key]}))
        except msgspec.MsgspecError:
            return str(key)
    return ""


async def _receive(request: Request) -> bytes:
    body: bytes = b""
    while (message := await request.receive())["type"] == "http.request":
        body += message.get("body", b"")
        _check_size(body)
        if not message.get("more_body"):
            return body
    raise ClientDisconnect


def _check_size(body: bytes) -> None:
    if len(body) > BODY_BYTES:
        raise Refusal(413, f"the body is over {BODY_BYTES:,} bytes: send it in parts.")


def media_type(request: Request) -> str:
    return _media_type(header(request.scope, b"content-type"))


@lru_cache(maxsize=64)  # calls repeat the same few
def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
