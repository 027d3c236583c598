"""JSON Lines: one row a line, in the order of arrival.

A row that comes again changed is added at the end; the line it replaces goes when the file is
closed or next opened. Until then the last line of an `_id` is the one that counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from skitter.sinks.base import FileFormat
from skitter.sinks.growing import GrowingFile, Record
from skitter.sinks.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.model import Result
    from skitter.sinks.base import Row
    from skitter.sinks.kinds import Kind


class JsonlFile:
    """A .jsonl file that a loader adds to."""

    def __init__(self, path: str, *, job: str) -> None:
        self._file = GrowingFile(Path(path), job=job)
        self.description = f"JSON Lines file {path}"
        self._closed = False

    def write(self, results: Sequence[Result]) -> None:
        rows = rows_of(results)
        digests = {row.id: row.digest for row in rows}
        new, stale = self._file.news(digests)
        records = [Record(r.id, r.line + b"\n", digests[r.id]) for r in rows if r.id in new]
        if records:
            self._file.append(records, stale=stale)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._file.close()


class JsonlFormat(FileFormat):
    """The same, written whole."""

    lead = b'{"_id":'

    def __init__(self, file: BinaryIO, columns: Mapping[str, Kind], *, safe: bool) -> None:
        self._file = file

    def write(self, rows: Sequence[Row]) -> None:
        self._file.writelines(row.line + b"\n" for row in rows)
