"""Bodies without their Content-Encoding, where the library leaves it alone."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, Protocol

from skitter.errors import BadResponse
from skitter.fetch.http.exchange import too_large

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skitter.fetch.http.exchange import Call

_OF_ZLIB: Final = frozenset({"gzip", "x-gzip", "deflate"})
_OTHERS: Final = frozenset({"br", "zstd", "compress", "x-compress"})


class BadPacking(ValueError):
    """The body does not decompress, or ends too early."""


class Unpacker(Protocol):
    """Decompresses one body as it arrives. aiohttp's own decompression takes a truncated gzip for a
    whole page."""

    def feed(self, data: bytes, max_bytes: int) -> bytes:
        """Returns at most a block more than `max_bytes`. Raises BadPacking."""
        ...

    def finish(self) -> None:
        """Raises BadPacking if the body is incomplete."""
        ...


class Zlib:
    """gzip, and both kinds of deflate: with zlib's header (RFC 9110 8.4.1.2) and without."""

    def __init__(self) -> None:
        self._state: zlib._Decompress | None = None

    def feed(self, data: bytes, max_bytes: int) -> bytes:
        if self._state is None:
            is_raw = data[0] & 0x0F != 8 and data[:1] != b"\x1f"
            self._state = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS + 32)
        try:
            return self._state.decompress(data, max_bytes + 1)
        except zlib.error as error:
            raise BadPacking(str(error)) from error

    def finish(self) -> None:
        if self._state and not self._state.eof:
            raise BadPacking("it ends too early")


def unpacked(call: Call, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    """What a library does not know: codings in upper case, as `x-gzip`, or several (RFC 9110 8.4).
    Words that are none, such as `UTF-8`, are ignored, as browsers do. Raises FetchError."""
    said = [value for name, value in headers if name == "content-encoding"]
    if not (said and body):
        return body
    codings = [coding.strip() for coding in ",".join(said).lower().split(",")]
    for coding in reversed(codings):  # the last one was applied last
        if coding in _OF_ZLIB:
            body = _inflated(call, body)
        elif coding in _OTHERS:
            raise BadResponse(call.url, f"the body is packed with {coding}")
    return body


def _inflated(call: Call, body: bytes) -> bytes:
    unpacker, max_bytes = Zlib(), call.options.max_body_bytes
    try:
        body = unpacker.feed(body, max_bytes)
        if len(body) > max_bytes:
            raise too_large(call)
        unpacker.finish()
    except BadPacking as error:
        raise BadResponse(call.url, "the body does not decompress") from error
    return body
