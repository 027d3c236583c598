"""Writes the responses of one process into WARC files."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from skitter.archive.files import hold
from skitter.archive.index import SOFTWARE, line_of
from skitter.archive.record import Kept, Record, pack_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import BinaryIO

MAX_FILE_BYTES: Final = 10**9
_BODIES: Final = 20_000  # whose digests are remembered


@dataclass(slots=True)
class ArchiveWriter:
    """The current file. A page's result is worth more than its copy: what cannot be kept is not."""

    folder: Path
    job: str
    log: Callable[[str, str], None]  # level, text
    max_file_bytes: int = MAX_FILE_BYTES
    again_s: float = 30.0  # after the disk was full
    _file: BinaryIO | None = None
    _name: str = ""
    _size: int = 0  # of the file, with what waits
    _waiting: list[tuple[BinaryIO, bytes]] = field(default_factory=list)  # to be written
    _bodies: dict[str, Kept] = field(default_factory=dict)  # by digest
    _failed_at: float | None = None  # the disk is full, or the folder is gone
    trouble: str = ""  # then it says so
    _written: int = 0  # bytes, since somebody asked

    def write(self, records: Sequence[Record]) -> list[str]:
        """Their lines for the index, once they are on disk; empty where one could not be kept.
        One call at a time, from any thread."""
        lines = self.add(records)
        return lines if self.sync() else [""] * len(records)

    def add(self, records: Sequence[Record]) -> list[str]:
        """Their lines for the index, which are true after a `sync` that returns True."""
        if self._failed_at and time.monotonic() - self._failed_at < self.again_s:
            return [""] * len(records)
        try:
            return [self._append(record) for record in records]
        except OSError as error:
            self._fail(error)
            return [""] * len(records)

    def sync(self) -> bool:
        """Write what was added, and wait for the disk. False: nothing of it is kept."""
        waiting, self._waiting = self._waiting, []
        try:
            for file, some in groupby(waiting, key=itemgetter(0)):
                packed = b"".join([packed for _, packed in some])
                file.write(packed)
                file.flush()
                os.fdatasync(file.fileno())
                self._written += len(packed)
                if file is not self._file:  # it is full
                    file.close()
        except OSError as error:
            self._fail(error)
        if waiting and self._file:
            if self._failed_at:
                self.log("info", f"the archive in {self.folder} can be written again")
            self._failed_at, self.trouble = None, ""
        return self._failed_at is None

    def take_bytes(self) -> int:
        """How many were written since the last call."""
        size, self._written = self._written, 0
        return size

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _append(self, record: Record) -> str:
        """Its line; empty if its request has something that no line can hold."""
        file = self._open()
        old = record.same_as
        same = old if old and old.digest == record.digest else None
        if record.response.body:
            same = self._bodies.get(record.digest, same)
        shot, at = record.pack_screenshot(), self._size
        kept = record.kept(self._name, at + len(shot), same=same, shot_at=at if shot else None)
        try:
            line, packed = line_of(kept), record.pack(same=same)
        except (ValueError, TypeError) as error:
            self.log("warning", f"{record.request.url}: the page is not kept: {error}")
            return ""
        self._add(file, shot + packed if shot else packed)
        if not same:
            self._bodies[record.digest] = kept
            if len(self._bodies) > _BODIES:
                self._bodies.clear()
        return line

    def _open(self) -> BinaryIO:
        """The current file, or the next if that is full: `sync` closes it."""
        if self._file is None or self._size > self.max_file_bytes:
            now = time.time()
            stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(now))
            self.folder.mkdir(parents=True, exist_ok=True)
            self._name = f"{self.job}-{stamp}-{secrets.token_hex(4)}.warc.gz"
            self._file, self._size = (self.folder / self._name).open("xb"), 0
            hold(self._file)
            self._bodies = {}  # a file needs no other: that may be pruned
            info = pack_info(now, software=SOFTWARE, format="WARC File Format 1.1")
            self._add(self._file, info)
        return self._file

    def _add(self, file: BinaryIO, packed: bytes) -> None:
        self._waiting.append((file, packed))
        self._size += len(packed)

    def _fail(self, error: OSError) -> None:
        if self._failed_at is None:
            why = f"cannot be written, pages are not kept: {error.strerror or error}"
            self.trouble = f"the archive in {self.folder} {why}"
            self.log("error", self.trouble)
        self._failed_at = time.monotonic()
        with suppress(OSError):  # what it still holds does not fit either
            self.close()
        self._file, self._bodies = None, {}  # half a record may be at its end
        self._waiting = []
