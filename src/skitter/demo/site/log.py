"""The access log: who requested what, and when."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TextIO

from skitter.demo.site.addresses import page_of

if TYPE_CHECKING:
    from pathlib import Path


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
