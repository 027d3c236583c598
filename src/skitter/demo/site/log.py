"""The access log: who asked for what, when."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TextIO

from skitter.demo.site.addresses import page_of

if TYPE_CHECKING:
    from pathlib import Path


class Entry(NamedTuple):
    """One request, at the moment it was read."""

    at: float  # seconds since the epoch
    monotonic: float  # the clock that nobody sets; the same for all processes of a machine
    method: str
    target: str  # path and query, as asked
    host: str  # the Host header
    status: int
    complete: bool  # False: the connection was closed in the middle, on purpose
    user_agent: str
    client_port: int

    @property
    def page(self) -> str:
        """What was meant: equal for all spellings of an address."""
        return page_of(self.target)


class AccessLog:
    """Remembers every request; writes it to a file too, one JSON document a line."""

    def __init__(self, file: Path | None = None) -> None:
        self.entries: list[Entry] = []
        self._path = file
        self._file: TextIO | None = None

    def open(self) -> None:
        """Add to the file if it exists: a shop that opens again keeps its books."""
        if self._path is not None:
            # Line by line: whoever reads the file sees a request before its answer.
            self._file = self._path.open("a", buffering=1, encoding="utf-8")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def record(self, entry: Entry) -> None:
        self.entries.append(entry)
        if self._file is not None:
            self._file.write(json.dumps(entry._asdict()) + "\n")
