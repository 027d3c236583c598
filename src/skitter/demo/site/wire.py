"""HTTP/1.1 as bytes: the head of a request in, an answer out (RFC 9112). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

MAX_HEAD_BYTES: Final = 16 * 1024
MAX_BODY_BYTES: Final = 64 * 1024  # of a request; it is read and thrown away

_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/1\.([01])")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.DOTALL)


class Refusal(Exception):
    """A request that is not answered with a page. The connection closes after it."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Head:
    """The first part of a request."""

    method: str
    target: str
    keep_alive: bool
    body_bytes: int
    fields: dict[bytes, bytes]  # names in lower case

    def field(self, name: bytes) -> str:
        return self.fields.get(name, b"").decode("latin-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back."""

    status: int
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    delay_s: float = 0.0
    cut: bool = False  # half of the body, then the end


def parse_head(data: bytes) -> Head:
    """Read everything up to the empty line. Raises Refusal."""
    first, *lines = data.split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if not line:
        raise Refusal(HTTPStatus.BAD_REQUEST)
    fields = {}
    for text in lines:
        field = _FIELD.fullmatch(text)
        if not field:
            raise Refusal(HTTPStatus.BAD_REQUEST)
        fields[field[1].lower()] = field[2]
    is_new = line[3] == b"1"
    if is_new and b"host" not in fields:  # RFC 9112 3.2
        raise Refusal(HTTPStatus.BAD_REQUEST)
    return Head(
        method=line[1].decode(),
        target=line[2].decode(),
        keep_alive=_keeps_alive(fields.get(b"connection", b"").lower(), is_new=is_new),
        body_bytes=_body_bytes(fields),
        fields=fields,
    )


def _keeps_alive(connection: bytes, *, is_new: bool) -> bool:
    return b"close" not in connection if is_new else b"keep-alive" in connection


def _body_bytes(fields: dict[bytes, bytes]) -> int:
    if b"transfer-encoding" in fields:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED)
    length = fields.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > 18:
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
