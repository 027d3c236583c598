"""A file of records that only grows, and is replaced as a whole when that will not do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from skitter.sinks.base import BadSink
from skitter.sinks.disk import sync_directory
from skitter.sinks.ledger import Ledger, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


class Record(NamedTuple):
    """A row's bytes in the file."""

    id: str
    data: bytes
    digest: bytes


class GrowingFile:
    """Records in a file; which of them count is in its ledger (ledger.py says how)."""

    def __init__(self, path: Path, *, job: str) -> None:
        if path.is_dir():
            raise BadSink(f"{path} is a directory: name a file.")
        self.path = path
        self.ledger = Ledger(path, job=job)
        try:
            with self.ledger.guard():
                self._recover()
        except BaseException:
            self.ledger.close()
            raise

    def _recover(self) -> None:
        self.ledger.settle()
        self.ledger.draft.unlink(missing_ok=True)
        if not self.path.exists() and self._size:
            self.ledger.forget()  # its owner moved it away, and wants a new one
        if self.path.exists():
            self._cut_back()
        if self.ledger.fact("stale", 0):
            self.rewrite()

    @property
    def _size(self) -> int:
        # Asked each time: after a failed commit only the ledger knows which state it is in.
        return int(self.ledger.fact("size", 0))

    def news(self, digests: dict[str, bytes]) -> tuple[set[str], int]:
        """The ids that are not in the file as they are, and how many of those are there changed."""
        with self.ledger.guard():
            known = self.ledger.digests(list(digests))
        new = {each for each, digest in digests.items() if known.get(each) != digest}
        return new, len(new & known.keys())

    def append(self, records: list[Record], *, stale: int) -> None:
        """Add records at the end; `stale` of them replace others."""
        with self.ledger.guard():
            self.ledger.settle()
            size = self._size
            data = b"".join(record.data for record in records)
            self._put(size, data)
            with self.ledger.transaction():
                self.ledger.record(_lay_out(records, size))
                self.ledger.note("size", size + len(data))
                self.ledger.note("stale", self.ledger.fact("stale", 0) + stale)

    def _put(self, size: int, data: bytes) -> None:
        fd = self._open(size)
        try:
            # What is beyond the size is of an attempt that failed. Writing it anew also matters
            # after a failed fsync: Linux then takes pages for clean that never reached the disk.
            os.ftruncate(fd, size)
            try:
                _write_all(fd, data, at=size)
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)  # a full disk leaves no half line behind
                raise
        finally:
            os.close(fd)
        if not size:
            sync_directory(self.path.parent)

    def _open(self, size: int) -> int:
        try:
            fd = os.open(self.path, os.O_RDWR | (0 if size else os.O_CREAT), 0o666)
        except FileNotFoundError as error:
            raise BadSink(
                f"{self.path} was taken away while it was written: start again for a new file."
            ) from error
        if os.fstat(fd).st_size < size:
            os.close(fd)
            raise self._too_short(size)
        return fd

    def _cut_back(self) -> None:
        size = self._size
        there = self.path.stat().st_size
        if there < size:
            raise self._too_short(size)
        if there > size:
            os.truncate(self.path, size)

    def _too_short(self, size: int) -> BadSink:
        return BadSink(
            f"{self.path} is shorter than the {size:,} bytes that were written: somebody changed "
            f"it. Move it and {self.path.name}.state away to begin a new one."
        )

    def rewrite(self) -> None:
        """Write the records that count to a new file, which takes the old one's place at once."""
        with self.ledger.guard():
            self.ledger.settle()
            with self.ledger.transaction():
                self.ledger.note("size", self._write_draft())
                self.ledger.note("stale", 0)
                self.ledger.note("moving", True)
            self.ledger.settle()

    def _write_draft(self) -> int:
        draft = self.ledger.draft
        try:
            with draft.open("wb") as new, self.path.open("rb") as old:
                self.ledger.replace(self._copy(old, new))
                new.flush()
                os.fsync(new.fileno())
                size = new.tell()
            sync_directory(self.path.parent)  # the ledger is about to rely on the draft's name
            return size
        except BaseException:
            draft.unlink(missing_ok=True)  # a full disk needs the room
            raise

    def _copy(self, old: BinaryIO, new: BinaryIO) -> Iterator[Place]:
        at = 0
        for place in self.ledger.places():
            old.seek(place.at)
            new.write(old.read(place.size))
            yield place._replace(at=at)
            at += place.size

    def close(self) -> None:
        """Drop records that count no more, and let go of the file."""
        try:
            with self.ledger.guard():
                stale = self.ledger.fact("stale", 0)
            if stale:
                self.rewrite()
        finally:
            self.ledger.close()


def _lay_out(records: list[Record], at: int) -> Iterator[Place]:
    for record in records:
        yield Place(record.id, at, len(record.data), record.digest)
        at += len(record.data)


def _write_all(fd: int, data: bytes, *, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, at)
        at, view = at + written, view[written:]
