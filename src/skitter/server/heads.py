"""Headers common to all answers."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus

from skitter.server.route import JSON

SECURITY = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
NOT_KEPT = (b"cache-control", b"no-store")


@cache
def head_of(status: int) -> bytes:
    """The head of a JSON answer, without its date and length."""
    lines = [(b"content-type", JSON.encode()), *SECURITY, NOT_KEPT]
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
    return first + b"".join(b"%b: %b\r\n" % line for line in lines)
