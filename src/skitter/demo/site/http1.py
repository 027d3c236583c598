"""HTTP/1.1 as bytes: the head of a request in, an answer out (RFC 9112). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple

MAX_HEAD_BYTES: Final = 16 * 1024
MAX_BODY_BYTES: Final = 64 * 1024  # of a request

_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/1\.([01])")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.DOTALL)


class Refusal(Exception):
    """A request that gets no page. The connection closes after it."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Fields(NamedTuple):
    """The request headers that the shop cares about."""

    host: str
    user_agent: str
    connection: str  # in lower case
    takes_gzip: bool
    body_bytes: int
    cookie: str = ""
    proxy_authorization: str = ""


class Head(NamedTuple):
    """A request."""

    method: str
    target: str
    keep_alive: bool
    fields: Fields
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response."""

    status: int
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    delay_s: float = 0.0
    cut: bool = False  # send half of the body, then close


def parse_head(data: bytes) -> Head:
    """Parse everything up to the empty line. Raises Refusal."""
    first, _, rest = data.partition(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if not line:
        raise Refusal(HTTPStatus.BAD_REQUEST)
    fields = _parse_fields(rest)
    is_new = line[3] == b"1"
    if is_new and not fields.host:  # RFC 9112 3.2
        raise Refusal(HTTPStatus.BAD_REQUEST)
    return Head(
        method=line[1].decode(),
        target=line[2].decode(),
        keep_alive="close" not in fields.connection
        if is_new
        else "keep-alive" in fields.connection,
        fields=fields,
    )


@lru_cache(maxsize=256)  # a client repeats its headers with every request
def _parse_fields(data: bytes) -> Fields:
    found = {}
    for line in data.split(b"\r\n") if data else ():
        field = _FIELD.fullmatch(line)
        if not field:
            raise Refusal(HTTPStatus.BAD_REQUEST)
        found[field[1].decode().lower()] = field[2].decode("latin-1")
    if "transfer-encoding" in found:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED)
    return Fields(
        host=found.get("host", ""),
        user_agent=found.get("user-agent", ""),
        connection=found.get("connection", "").lower(),
        takes_gzip="gzip" in found.get("accept-encoding", "").lower(),
        body_bytes=_body_bytes(found.get("content-length", "0")),
        cookie=found.get("cookie", ""),
        proxy_authorization=found.get("proxy-authorization", ""),
    )


def _body_bytes(length: str) -> int:
    if not (length.isascii() and length.isdigit() and len(length) <= 18):
        raise Refusal(HTTPStatus.BAD_REQUEST)
    if int(length) > MAX_BODY_BYTES:
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return int(length)


def write_answer(answer: Answer, *, at: float, keep_alive: bool, with_body: bool) -> bytes:
    """The bytes of an answer, complete or cut in half."""
    head = _write_head(answer.status, answer.fields, len(answer.body))
    connection = b"keep-alive" if keep_alive and not answer.cut else b"close"
    body = answer.body if with_body else b""
    if answer.cut:
        body = body[: len(body) // 2]
    return b"%bDate: %b\r\nConnection: %b\r\n\r\n%b" % (head, _date(int(at)), connection, body)


@lru_cache(maxsize=1024)
def _write_head(status: int, fields: tuple[tuple[str, str], ...], body_bytes: int) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Server: lantern"]
    lines += [f"{name}: {value}" for name, value in fields]
    lines.append(f"Content-Length: {body_bytes}")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
