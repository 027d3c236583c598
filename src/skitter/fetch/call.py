"""What a client is asked for, and what each of them has to keep to.

A `Client` makes one exchange. Everything that is a matter of safety is decided before: the URL in
one spelling, the addresses that may be dialled, the headers, the limits.
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
    url: str  # in the spelling that is sent
    whom: Authority
    addresses: tuple[str, ...]  # the only ones to dial; empty: the URL has its own
    proxy: str  # as `spell` has it; empty: none
    headers: dict[str, str]  # of the request, with credentials
    options: FetchOptions  # with what the request wants otherwise
    leave: Leave | None
    check: Callable[[str, str | None], None] | None  # of the address that answered, by the guard


class Client(Protocol):
    """A library that speaks HTTP. It neither follows redirects nor keeps cookies, and dials no
    address but those of the call."""

    def open(self) -> None: ...

    async def close(self) -> None: ...

    async def exchange(self, call: Call) -> Response:
        """The response, or a FetchError. All limits of `call.options` hold."""
        ...


def check_method(call: Call) -> None:
    if call.request.method not in METHODS:
        raise FetchError(call.url, f"{call.request.method} is not a method that can be sent")


def bad_header(call: Call) -> FetchError:
    return FetchError(call.url, "a header of the request cannot be sent")


def read_headers(call: Call, raw: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """As text, if they are not too much of it; names in lower case."""
    pairs = list(raw)
    most = call.options.max_header_bytes
    if sum([len(name) + len(value) for name, value in pairs]) > most:
        raise ResponseTooLarge(call.url, f"the headers are over {most:,} bytes")
    try:
        return tuple([(name.decode().lower(), value.decode()) for name, value in pairs])
    except UnicodeDecodeError:
        return tuple([(_text(name).lower(), _text(value)) for name, value in pairs])


def too_large(call: Call) -> ResponseTooLarge:
    return ResponseTooLarge(call.url, f"the body is over {call.options.max_body_bytes:,} bytes")


def _text(value: bytes) -> str:
    """UTF-8 where it is, as browsers read Location; else bytes one by one (RFC 9110 5.5)."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
