"""JSON Lines: one row per line, in order of arrival.

A changed row is appended; the line it replaces is removed when the file is closed or next opened.
Until then the last line with an `_id` is the current one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from skitter.sinks.base import BadSink, FileFormat
from skitter.sinks.files.ledger import Ledger, Place, sync_directory
from skitter.sinks.rows import fresh_of, page_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skitter.model import Result
    from skitter.sinks.base import Row
    from skitter.sinks.columns import Kind


class JsonlFile:
    """A .jsonl file that a loader appends to. The ledger knows which lines are current, and how
    that survives a kill; where appending will not do, the whole file is replaced."""

    def __init__(self, path: str, *, job: str) -> None:
        self._path = Path(path)
        if self._path.is_dir():
            raise BadSink(f"{path} is a directory: name a file.")
        self.description = f"JSON Lines file {path}"
        self._closed = False
        self._ledger = Ledger(self._path, job=job)
        try:
            with self._ledger.guard():
                self._recover()
        except BaseException:
            self._ledger.close()
            raise

    def _recover(self) -> None:
        self._ledger.settle()
        self._ledger.draft.unlink(missing_ok=True)
        if not self._path.exists() and self._size:
            self._ledger.forget()  # its owner moved it away, and wants a new one
        if self._path.exists():
            self._cut_back()
        if self._ledger.fact("stale", 0):
            self._rewrite()

    @property
    def _size(self) -> int:
        # Read each time: after a failed commit only the ledger knows the state.
        return int(self._ledger.fact("size", 0))

    def write(self, results: Sequence[Result]) -> int:
        rows = rows_of(results)
        with self._ledger.guard():
            rows = fresh_of(rows, self._known_times(rows)).rows
            lines = {row.id: row.line + b"\n" for row in rows}
            known = self._ledger.digests(list(lines))
        new = {name: line for name, line in lines.items() if known.get(name) != digest(line)}
        updated = len(new.keys() & known.keys())
        if new:
            self._append(new, stale=updated)
        return updated

    def _known_times(self, rows: Sequence[Row]) -> dict[str, datetime]:
        """When the row of each page that was written last was fetched, by id."""
        self._ledger.settle()
        places = [self._ledger.last_of(page) for page in {page_of(row.id) for row in rows}]
        if not any(places) or not self._path.exists():
            return {}
        found: dict[str, datetime] = {}
        with self._path.open("rb") as file:
            for place in filter(None, places):
                file.seek(place.at)
                with suppress(msgspec.MsgspecError):  # changed from outside
                    found[place.id] = _stamp(file.read(place.size))
        return found

    def clear(self, *, drop: bool = False) -> int:
        """Remove all rows; return how many there were. The ledger goes first: if killed in
        between, the next opening truncates the file."""
        with self._ledger.guard():
            rows = self._ledger.count()
            self._ledger.settle()
            self._ledger.forget()
            if self._path.exists():
                os.truncate(self._path, 0)
        return rows

    def count(self) -> int:
        """How many rows there are."""
        with self._ledger.guard():
            return self._ledger.count()

    def _append(self, lines: dict[str, bytes], *, stale: int) -> None:
        """Append lines, by the ids of their rows; `stale` of them replace others."""
        with self._ledger.guard():
            self._ledger.settle()
            size = end = self._size
            places = []
            for name, line in lines.items():
                places.append(Place(name, end, len(line), digest(line)))
                end += len(line)
            self._put(size, b"".join(lines.values()))
            with self._ledger.transaction():
                self._ledger.record(places)
                self._ledger.note("size", end)
                self._ledger.note("stale", self._ledger.fact("stale", 0) + stale)

    def _put(self, size: int, data: bytes) -> None:
        fd = self._open(size)
        try:
            # Anything beyond the size is from a failed attempt. Rewriting it also matters after a
            # failed fsync: Linux then marks pages clean that never reached the disk.
            os.ftruncate(fd, size)
            try:
                _write_all(fd, data, at=size)
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)  # a full disk must not leave half a line
                raise
        finally:
            os.close(fd)
        if not size:
            sync_directory(self._path.parent)

    def _open(self, size: int) -> int:
        try:
            fd = os.open(self._path, os.O_RDWR | (0 if size else os.O_CREAT), 0o666)
        except FileNotFoundError as error:
            raise BadSink(
                f"{self._path} was removed while it was written: start again to create a new one."
            ) from error
        if os.fstat(fd).st_size < size:
            os.close(fd)
            raise self._too_short(size)
        return fd

    def _cut_back(self) -> None:
        size = self._size
        there = self._path.stat().st_size
        if there < size:
            raise self._too_short(size)
        if there > size:
            os.truncate(self._path, size)

    def _too_short(self, size: int) -> BadSink:
        return BadSink(
            f"{self._path} is shorter than the {size:,} bytes that were written: it was changed "
            f"from outside. To start a new one, move it and {self._path.name}.state away."
        )

    def _rewrite(self) -> None:
        """Write the current lines to a new file, which replaces the old one atomically."""
        with self._ledger.guard():
            self._ledger.settle()
            with self._ledger.transaction():
                self._ledger.note("size", self._write_draft())
                self._ledger.note("stale", 0)
                self._ledger.note("moving", True)
            self._ledger.settle()

    def _write_draft(self) -> int:
        draft = self._ledger.draft
        try:
            draft.unlink(missing_ok=True)  # perhaps a link: a new file never is
            with draft.open("xb") as new, self._path.open("rb") as old:
                self._ledger.replace(self._copy(old, new))
                new.flush()
                os.fsync(new.fileno())
                size = new.tell()
            sync_directory(self._path.parent)  # the ledger is about to rely on the draft's name
            return size
        except BaseException:
            draft.unlink(missing_ok=True)  # a full disk needs the space
            raise

    def _copy(self, old: BinaryIO, new: BinaryIO) -> Iterator[Place]:
        at = 0
        for place in self._ledger.places():
            old.seek(place.at)
            new.write(old.read(place.size))
            yield place._replace(at=at)
            at += place.size

    def close(self) -> None:
        """Remove stale lines and close the file."""
        if self._closed:
            return
        self._closed = True
        try:
            with self._ledger.guard():
                stale = self._ledger.fact("stale", 0)
            if stale:
                self._rewrite()
        finally:
            self._ledger.close()


class JsonlFormat(FileFormat):
    """The same format, written in one go."""

    lead = b'{"_id":'

    def __init__(self, file: BinaryIO, columns: Mapping[str, Kind], *, safe: bool) -> None:
        self._file = file

    def write(self, rows: Sequence[Row]) -> None:
        self._file.writelines(row.line + b"\n" for row in rows)


class _Stamp(msgspec.Struct, rename=lambda name: f"_{name}"):
    fetched_at: datetime


def _stamp(line: bytes) -> datetime:
    return msgspec.json.decode(line, type=_Stamp).fetched_at


def digest(line: bytes) -> bytes:
    """Equal for a row that is delivered again unchanged."""
    return blake2b(line.rstrip(b"\n"), digest_size=8).digest()


def _write_all(fd: int, data: bytes, *, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        at, view = at + written, view[written:]
