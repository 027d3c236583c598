"""What a client is asked to do, and what every client must obey.

A `Client` makes one exchange. Everything that concerns safety is decided before: the spelling of
the URL, the addresses that may be dialled, the headers, the limits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from skitter.errors import FetchError, ResponseTooLarge

if TYPE_CHECKING:
    from skitter.fetch.guard import Authority
    from skitter.model import Request, Response
    from skitter.settings.fetch import FetchOptions

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

#: Called when all is ready and the request is about to leave; it may wait, or raise.
Leave = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Call:
    """One request, checked."""

    request: Request
    url: str  # as it is sent
    whom: Authority
    addresses: tuple[str, ...]  # the only ones to dial; empty: the URL contains one
    proxy: str  # as `spell` returns it; empty: none
    headers: dict[str, str]  # of the request, with credentials
    options: FetchOptions  # with the request's own limits
    leave: Leave | None
    check: Callable[[str, str | None], None] | None  # URL, address that answered


class Client(Protocol):
    """A library that speaks HTTP. It neither follows redirects nor keeps cookies, and dials only
    the addresses of the call."""

    def open(self) -> None: ...

    async def close(self) -> None: ...

    async def exchange(self, call: Call) -> Response:
        """The response, or a FetchError. All limits of `call.options` hold."""
        ...


def check_method(call: Call) -> None:
    if call.request.method not in METHODS:
        raise FetchError(call.url, f"{call.request.method} is not a valid HTTP method")


def bad_header(call: Call) -> FetchError:
    return FetchError(call.url, "a header of the request cannot be sent")


def read_headers(call: Call, raw: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The headers as text, names in lower case. Raises ResponseTooLarge."""
    pairs = list(raw)
    limit = call.options.max_header_bytes
    if sum([len(name) + len(value) for name, value in pairs]) > limit:
        raise ResponseTooLarge(call.url, f"the headers are over {limit:,} bytes")
    try:
        return tuple([(name.decode().lower(), value.decode()) for name, value in pairs])
    except UnicodeDecodeError:
        return tuple([(_text(name).lower(), _text(value)) for name, value in pairs])


def too_large(call: Call) -> ResponseTooLarge:
    return ResponseTooLarge(call.url, f"the body is over {call.options.max_body_bytes:,} bytes")


def _text(value: bytes) -> str:
    """UTF-8 if valid, as browsers read Location; otherwise Latin-1 (RFC 9110 5.5)."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
