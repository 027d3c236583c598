"""Writes the responses of one process into WARC files, on disk before their pages are completed.

A thread writes all that has come meanwhile, syncs once, and tells those who wait.
"""

from __future__ import annotations

import asyncio
import os
import queue
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from skitter.archive.index import SOFTWARE, line_of
from skitter.archive.record import Kept, Record, pack_info

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    Waiting = tuple[Record, asyncio.Future[str]]

MAX_FILE_BYTES: Final = 10**9
_BODIES: Final = 20_000  # whose digests are remembered
_AGAIN_S: Final = 30.0  # after the disk was full


@dataclass(slots=True)
class ArchiveWriter:
    """Use it as `with ArchiveWriter(folder, job, log) as archive`."""

    folder: Path
    job: str
    log: Callable[[str, str], None]  # level, text; called from the event loop
    max_file_bytes: int = MAX_FILE_BYTES
    _queue: queue.SimpleQueue[Waiting | None] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None
    _file: BinaryIO | None = None
    _name: str = ""
    _bodies: dict[str, Kept] = field(default_factory=dict)  # by digest
    _away_since: float | None = None  # the disk is full, or the folder is gone

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._queue.put(None)
        if self._thread:
            self._thread.join()

    async def keep(self, record: Record) -> str:
        """The line for the index, once the response is on disk; empty: it could not be kept."""
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._queue.put((record, done))
        return await done

    # --- on the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        while some := self._take():
            try:
                lines = self._write([record for record, _ in some])
            except Exception as error:  # whatever it is, those who wait must be told
                self._pause(some, error)
            else:
                self._tell(some, lines)
        self._close()

    def _take(self) -> list[Waiting]:
        """All that is waiting; empty: it is over."""
        some: list[Waiting] = []
        first = self._queue.get()
        while first is not None:
            some.append(first)
            if self._queue.empty():
                return some
            first = self._queue.get()
        self._queue.put(None)  # for the next call
        return some

    def _write(self, records: list[Record]) -> list[str]:
        if self._away_since and time.monotonic() - self._away_since < _AGAIN_S:
            return [""] * len(records)
        kept = [self._append(record) for record in records]
        assert self._file
        self._file.flush()
        os.fdatasync(self._file.fileno())
        self._away_since = None
        return [line_of(one) for one in kept]

    def _append(self, record: Record) -> Kept:
        file = self._open()
        same = self._bodies.get(record.digest) if record.response.body else None
        offset = file.tell()
        kept = record.kept(self._name, offset, body_at=(same.file, same.offset) if same else None)
        file.write(record.pack(refers_to=same))
        if not same:
            self._bodies[record.digest] = kept
            if len(self._bodies) > _BODIES:
                self._bodies.clear()
        return kept

    def _open(self) -> BinaryIO:
        """The current file, or the next if that is full."""
        if self._file and self._file.tell() > self.max_file_bytes:
            self._close()
        if self._file is None:
            stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime())
            self._name = f"{self.job}-{stamp}-{secrets.token_hex(4)}.warc.gz"
            self._file = (self.folder / self._name).open("xb")
            self._file.write(pack_info(software=SOFTWARE, format="WARC File Format 1.1"))
        return self._file

    def _close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _pause(self, some: list[Waiting], error: Exception) -> None:
        """A page's result is worth more than its copy: go on without."""
        is_new, self._away_since = self._away_since is None, time.monotonic()
        self._file, self._bodies = None, {}  # half a record may be at its end
        self._tell(some, [""] * len(some))
        if is_new:
            told = f"the archive in {self.folder} cannot be written, pages are not kept: {error}"
            some[0][1].get_loop().call_soon_threadsafe(self.log, "error", told)

    def _tell(self, some: list[Waiting], lines: list[str]) -> None:
        def tell() -> None:
            for (_, done), line in zip(some, lines, strict=True):
                if not done.cancelled():
                    done.set_result(line)

        some[0][1].get_loop().call_soon_threadsafe(tell)
