"""Decompresses bodies as they arrive, and counts them, for a client that does not.

aiohttp's own decompression takes a truncated gzip for a whole page.
"""

from __future__ import annotations

import sys
import zlib
from typing import Final, Protocol

import brotli  # type: ignore[import-untyped]

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: What can be decompressed here, for Accept-Encoding.
ACCEPTED: Final = "gzip, deflate, br, zstd"
BLOCK_BYTES: Final = 256 * 2**10


class BadPacking(ValueError):
    """The body does not decompress, or ends too early."""


class Unpacker(Protocol):
    """Decompresses one body."""

    def feed(self, data: bytes, max_bytes: int) -> bytes:
        """Returns at most a block more than `max_bytes`. Raises BadPacking."""
        ...

    def finish(self) -> None:
        """Raises BadPacking if the body is incomplete."""
        ...


def unpacker_of(encoding: str) -> Unpacker | None:
    """None: it is not compressed, or in an unknown way."""
    kind = _KINDS.get(encoding.strip().lower())
    return kind() if kind else None


class _Zlib:
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


class _Brotli:
    def __init__(self) -> None:
        self._state = brotli.Decompressor()
        self._has_begun = False

    def feed(self, data: bytes, max_bytes: int) -> bytes:
        self._has_begun = True
        try:
            body = bytearray(self._state.process(data, output_buffer_limit=BLOCK_BYTES))
            while len(body) <= max_bytes and not self._state.can_accept_more_data():
                body += self._state.process(b"", output_buffer_limit=BLOCK_BYTES)
        except brotli.error as error:
            raise BadPacking(str(error)) from error
        return bytes(body)

    def finish(self) -> None:
        if self._has_begun and not self._state.is_finished():
            raise BadPacking("it ends too early")


class _Zstd:
    def __init__(self) -> None:
        self._state: zstd.ZstdDecompressor | None = None

    def feed(self, data: bytes, max_bytes: int) -> bytes:
        self._state = self._state or zstd.ZstdDecompressor()
        try:
            return self._state.decompress(data, max_bytes + 1)
        except (zstd.ZstdError, EOFError) as error:
            raise BadPacking(str(error)) from error

    def finish(self) -> None:
        if self._state and not self._state.eof:
            raise BadPacking("it ends too early")


_KINDS: Final[dict[str, type[Unpacker]]] = {
    "gzip": _Zlib,
    "x-gzip": _Zlib,
    "deflate": _Zlib,
    "br": _Brotli,
    "zstd": _Zstd,
}
