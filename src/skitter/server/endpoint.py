"""A row of the table becomes an ASGI application."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from skitter.errors import SkitterError
from skitter.server.call import Call
from skitter.server.problems import MEDIA, Refusal, bad_input, problem_of, retry_after_s
from skitter.server.route import JSON

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from skitter.server.route import Route
    from skitter.server.site import Site

BODY_BYTES = 10 * 2**20
encode = msgspec.json.Encoder().encode
log = logging.getLogger("skitter.server")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Checks a call, has it answered and sends the answer, or the problem."""

    route: Route
    site: Site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(Request(scope, receive))
        except (SkitterError, Refusal) as error:
            response = refuse(error)
        except Exception as error:
            log.exception("%s %s", self.route.method, self.route.path)
            response = refuse(error)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        values: dict[str, Any] = {}
        if self.route.query:
            values["query"] = read_query(request, self.route.query)
        if self.route.body:
            values["body"] = await read_body(request, self.route.body)
        answer = await self.route.answer(Call(self.site, request), **values)
        if isinstance(answer, Response):
            return answer
        return Response(encode(answer), self.route.status, media_type=JSON)


def refuse(error: Exception) -> Response:
    """The answer to a call that failed."""
    problem, after_s = problem_of(error), retry_after_s(error)
    headers = {} if after_s is None else {"retry-after": str(after_s)}
    return Response(encode(problem), problem.status, headers, MEDIA)


def read_query(request: Request, kind: Any) -> Any:
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise bad_input(error) from None


async def read_body(request: Request, kind: Any) -> Any:
    """The body, as JSON of that type."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refusal(415, f"send the body as JSON, with `content-type: {JSON}`.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES:
            raise Refusal(413, f"the body is over {BODY_BYTES:,} bytes: send it in parts.")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise bad_input(error) from None
