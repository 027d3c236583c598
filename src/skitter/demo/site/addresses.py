"""The shop's addresses: how links spell them, which are the same page, who requested which."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO
from urllib.parse import quote, unquote, urlsplit
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


TRACKING_PREFIXES: Final = ("utm_", "gclid=", "fbclid=")


def escape_path(path: str) -> str:
    """A path as written in a URL."""
    return quote(path, safe="/-._~")


def page_of(target: str) -> str:
    """Which page a request target means: path decoded, tracking dropped, query sorted.

    Equal for two targets if, and only if, the shop answers them with the same page.
    """
    if "?" not in target and "%" not in target and target.startswith("/"):
        return target  # nearly all of them
    if not target.startswith("/"):  # RFC 9112 3.2.2: the absolute form, sent to proxies
        parts = urlsplit(target)
        target = f"{parts.path or '/'}?{parts.query}"
    path, _, query = target.partition("?")
    pieces = sorted(p for p in query.split("&") if p and not p.startswith(TRACKING_PREFIXES))
    return f"{unquote(path)}?{'&'.join(pieces)}" if pieces else unquote(path)


# --- spellings ------------------------------------------------------------------------------------


def spell(path: str, *, origin: str, page: str, turn: int) -> str:
    """A link to a path as written on a page; each turn spells it differently.

    >>> spell("/books/tides", origin="http://localhost:80", page="/authors/ada", turn=1)
    '../books/tides'
    """
    return _SPELLINGS[turn % len(_SPELLINGS)](escape_path(path), origin, page)


def first_turn(page: str) -> int:
    """Where a page starts counting turns, so that no two pages spell a link the same way."""
    return crc32(page.encode())


def relative(path: str, page: str) -> str:
    return posixpath.relpath(path, posixpath.dirname(page))


def _escape_needlessly(path: str) -> str:
    """The last letter as %xx, or existing escapes in lower case: the same path (6.2.2)."""
    return path.lower() if "%" in path else f"{path[:-1]}%{ord(path[-1]):02x}"


_SPELLINGS: Final[tuple[Callable[[str, str, str], str], ...]] = (
    lambda path, origin, page: path,
    lambda path, origin, page: relative(path, page),
    lambda path, origin, page: f"{origin}{path}",
    lambda path, origin, page: f"{path}?utm_source=shelf&utm_medium=web",
    lambda path, origin, page: f"{path}#reviews",
    # Scheme and host are case-insensitive (RFC 3986 6.2.2.1).
    lambda path, origin, page: f"{origin.upper()}{path}",
    lambda path, origin, page: origin.removeprefix("http:") + path,
    lambda path, origin, page: f"{relative(path, page)}?gclid=Cj0KCQ#price",
    lambda path, origin, page: _escape_needlessly(path),
    lambda path, origin, page: f"/about/..{path}",
)


class Entry(NamedTuple):
    """One request, when it was read."""

    at: float  # seconds since the epoch
    monotonic: float  # never adjusted; shared by all processes of a machine
    method: str
    target: str  # path and query, as requested
    host: str  # the Host header
    status: int
    complete: bool  # False: the connection was deliberately closed halfway
    user_agent: str
    client_port: int

    @property
    def page(self) -> str:
        """The page: equal for all spellings of an address."""
        return page_of(self.target)


class AccessLog:
    """Remembers every request; optionally writes them to a file, one JSON document per line."""

    def __init__(self, file: Path | None = None) -> None:
        self.entries: list[Entry] = []
        self._path = file
        self._file: TextIO | None = None

    def open(self) -> None:
        """Append to an existing file: a shop that reopens keeps its books."""
        if self._path is not None:
            # Line-buffered: readers of the file see a request before its answer is sent.
            self._file = self._path.open("a", buffering=1, encoding="utf-8")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def record(self, entry: Entry) -> None:
        self.entries.append(entry)
        if self._file is not None:
            self._file.write(json.dumps(entry._asdict()) + "\n")
