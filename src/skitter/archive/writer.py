"""Writes the responses of one process into WARC files."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from skitter.archive.index import SOFTWARE, line_of
from skitter.archive.record import Kept, Record, pack_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import BinaryIO

MAX_FILE_BYTES: Final = 10**9
_BODIES: Final = 20_000  # whose digests are remembered
_AGAIN_S: Final = 30.0  # after the disk was full


@dataclass(slots=True)
class ArchiveWriter:
    """The current file. A page's result is worth more than its copy: what cannot be kept is not."""

    folder: Path
    job: str
    log: Callable[[str, str], None]  # level, text
    max_file_bytes: int = MAX_FILE_BYTES
    _file: BinaryIO | None = None
    _name: str = ""
    _bodies: dict[str, Kept] = field(default_factory=dict)  # by digest
    _failed_at: float | None = None  # the disk is full, or the folder is gone

    def write(self, records: Sequence[Record]) -> list[str]:
        """Their lines for the index, once they are on disk; empty where one could not be kept.
        One call at a time, from any thread."""
        if self._failed_at and time.monotonic() - self._failed_at < _AGAIN_S:
            return [""] * len(records)
        try:
            lines = [self._append(record) for record in records]
            self._sync()
        except OSError as error:
            self._fail(error)
            return [""] * len(records)
        self._failed_at = None
        return lines

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _append(self, record: Record) -> str:
        """Its line; empty if its request has something that no line can hold."""
        file = self._open()
        same = self._bodies.get(record.digest) if record.response.body else None
        body_at = (same.file, same.offset) if same else None
        kept = record.kept(self._name, file.tell(), body_at=body_at)
        try:
            line, packed = line_of(kept), record.pack(refers_to=same)
        except (ValueError, TypeError) as error:
            self.log("warning", f"{record.request.url}: the page is not kept: {error}")
            return ""
        file.write(packed)
        if not same:
            self._bodies[record.digest] = kept
            if len(self._bodies) > _BODIES:
                self._bodies.clear()
        return line

    def _open(self) -> BinaryIO:
        """The current file, or the next if that is full."""
        if self._file and self._file.tell() > self.max_file_bytes:
            self._sync()
            self.close()
        if self._file is None:
            now = time.time()
            stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(now))
            self.folder.mkdir(parents=True, exist_ok=True)
            self._name = f"{self.job}-{stamp}-{secrets.token_hex(4)}.warc.gz"
            self._file = (self.folder / self._name).open("xb")
            self._file.write(pack_info(now, software=SOFTWARE, format="WARC File Format 1.1"))
        return self._file

    def _sync(self) -> None:
        if self._file:
            self._file.flush()
            os.fdatasync(self._file.fileno())

    def _fail(self, error: OSError) -> None:
        if self._failed_at is None:
            why = f"the archive in {self.folder} cannot be written, pages are not kept: {error}"
            self.log("error", why)
        self._failed_at = time.monotonic()
        with suppress(OSError):  # what it still holds does not fit either
            self.close()
        self._file, self._bodies = None, {}  # half a record may be at its end
