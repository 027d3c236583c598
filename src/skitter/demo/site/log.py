"""The access log: who asked for what, when; and what a crawl's good manners look like in it."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TextIO

from skitter.demo.site.addresses import page_of
from skitter.demo.site.pages import DISALLOWED

if TYPE_CHECKING:
    from collections.abc import Iterable
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


def read_log(file: Path) -> list[Entry]:
    """The entries of a file, in order. A last line that is still being written is left out."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return [Entry(**json.loads(line)) for line in lines if line.endswith("\n")]


# --- what it proves -------------------------------------------------------------------------------


def fetched_twice(entries: Iterable[Entry]) -> list[str]:
    """Pages that were asked for again after a final answer. A polite crawl has none.

    A 5xx and a broken connection are not final: to try those again is what they are for.
    """
    final = Counter(
        entry.page
        for entry in entries
        if entry.method == "GET" and entry.complete and entry.status < 500
    )
    return [page for page, times in final.items() if times > 1]


def trespasses(entries: Iterable[Entry]) -> list[Entry]:
    """Requests for what robots.txt disallows."""
    return [entry for entry in entries if entry.page.startswith(DISALLOWED)]


def smallest_gap_s(entries: Iterable[Entry]) -> float | None:
    """The shortest time between two requests to the same host, None if there were no two."""
    moments: dict[str, list[float]] = {}
    for entry in entries:
        moments.setdefault(entry.host.lower(), []).append(entry.monotonic)
    gaps = [later - earlier for times in moments.values() for earlier, later in pairwise(times)]
    return min(gaps, default=None)
