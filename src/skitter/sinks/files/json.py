"""JSON: one array of rows, a row per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from skitter.sinks.base import FileFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skitter.sinks.base import Row
    from skitter.sinks.columns import Kind


class JsonFormat(FileFormat):
    """A .json file."""

    lead = b"["

    def __init__(self, file: BinaryIO, columns: Mapping[str, Kind], *, safe: bool) -> None:
        self._file, self._begun = file, False
        file.write(b"[")

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._file.write((b",\n" if self._begun else b"\n") + row.line)
            self._begun = True

    def close(self) -> None:
        self._file.write(b"\n]\n")
