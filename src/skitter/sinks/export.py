"""Write the rows of a database to a file: either the old file or the new one exists, never half.

The rows go to a draft beside the file, which is then renamed. Its name is random and new: whoever
can write to that folder cannot have put a link there. A second file is locked: the second of two
exports to one file waits, so older rows never replace newer ones.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from glob import escape
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from skitter.sinks.base import BadSink, SinkAway
from skitter.sinks.disk import sync_directory, why_not_written
from skitter.sinks.ledger import state_path
from skitter.sinks.registry import COPY_FILES, find_type, load, open_database
from skitter.sinks.rows import row_of
from skitter.sinks.thread import open_on_thread
from skitter.sinks.types import types_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from skitter.sinks.base import FileFormat
    from skitter.sinks.receipts import Receipts
    from skitter.sinks.sql import SqlTable
    from skitter.sinks.types import OfType

    Readable = SqlTable | OfType

_BATCH = 500
_LOOK_AGAIN_S = 0.1
#: Errors that somebody may fix while we wait.
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@dataclass(frozen=True, slots=True)
class Target:
    """The file to write. With receipts, only a file that they list is overwritten; without, one
    that begins as ours do."""

    path: Path
    receipts: Receipts | None = None
    csv_safe: bool = True

    @property
    def lock(self) -> Path:
        return self.path.with_name(f".{self.path.name}.draft")

    def new_draft(self) -> Path:
        return self.path.with_name(f"{self.lock.name}-{os.urandom(8).hex()}")

    def stale_drafts(self) -> Iterator[Path]:
        """Of exports that were killed. For whoever has the lock."""
        return self.path.parent.glob(escape(f"{self.lock.name}-") + "?" * 16)

    def format(self) -> type[FileFormat]:
        try:
            whole = find_type(str(self.path)).whole
        except BadSink:
            problem = f"{self.path.name} has no known suffix: name a file ({COPY_FILES})."
            raise BadSink(problem) from None
        if not whole:
            raise BadSink(f"{self.path} is a database: name a file ({COPY_FILES}).")
        found: type[FileFormat] = load(whole)
        return found

    def check_folder(self) -> None:
        """Raise BadSink if no file can be created there: better now than at the end of a crawl."""
        with _errors(self.path):
            try:
                TemporaryFile(dir=self.path.parent).close()
            except OSError as error:
                if error.errno in _PASSING:
                    raise
                why = why_not_written(self.path, error.strerror)
                raise BadSink(f"cannot write {self.path}: {why}.") from error

    def check(self) -> None:
        """Raise BadSink if it cannot be written, or would destroy something."""
        path = self.path
        if not path.parent.is_dir():
            raise BadSink(f"there is no directory {path.parent}: create it first.")
        if path.is_dir():
            raise BadSink(f"{path} is a directory: choose another name, or move it.")
        if state_path(path).exists():
            raise BadSink(f"{path} is a loader's output: choose another name.")
        if not path.exists() or not path.stat().st_size:
            return
        if self.receipts and not self.receipts.has(path.stat()):
            raise BadSink(
                f"{path} already exists, and was not written by this job, or was changed since: "
                "choose another name, or move it."
            )
        lead = self.format().lead
        with path.open("rb") as file:
            if file.read(len(lead)) != lead:
                raise BadSink(
                    f"{path} already exists and was not written by Skitter: choose another name, "
                    "or move it."
                )


async def export(dsn: str, target: Target, *, job: str, table: str | None = None) -> int:
    """Write the job's current rows. Returns how many there are."""
    async with open_on_thread(partial(open_database, dsn, job=job, table=table)) as source:
        return await _export(source, source.store, target)


async def export_types(dsn: str, target: Target, *, job: str) -> None:
    """If its items are of several types: a file for each, such as shop.book.csv of shop.csv. That
    of a type without any row goes."""
    if (receipts := target.receipts) is None:
        return
    whole = target.path
    async with open_on_thread(partial(open_database, dsn, job=job)) as source:
        old = receipts.of_types(whole)
        for one in await source.run(types_of, source.store):
            path = whole.with_suffix(f".{one.name}{whole.suffix}")
            old.discard(path.name)
            receipts.add_of_type(whole, path.name)
            await _export(source, one, replace(target, path=path))
        with _errors(whole):
            for name in old:
                receipts.remove_of_type(whole, name)


async def _export(source: Any, table: Readable, target: Target) -> int:
    target.check()
    target.check_folder()
    rows, steps = 0, _write(table, target)
    try:
        while (some := await source.run(next, steps, None)) is not None:
            rows += some
    finally:
        await source.run(steps.close)
    return rows


def _write(table: Readable, target: Target) -> Generator[int]:
    """Runs in steps, so that it can be cancelled; each yields how many rows it wrote."""
    with _errors(target.path):
        while (lock := _lock(target.lock)) is None:
            yield 0
            time.sleep(_LOOK_AGAIN_S)
        with lock:
            for stale in target.stale_drafts():
                stale.unlink(missing_ok=True)
            draft = target.new_draft()
            try:
                with draft.open("xb") as file:
                    yield from _fill(file, table, target)
                    target.check()  # again: somebody may have put a file there
                    _publish(file, draft, target)
            finally:
                draft.unlink(missing_ok=True)  # a full disk needs the room
                target.lock.unlink(missing_ok=True)


def _fill(file: BinaryIO, table: Readable, target: Target) -> Iterator[int]:
    writer: FileFormat | None = None
    for page in table.read(batch=_BATCH):
        writer = writer or target.format()(file, page.columns, safe=target.csv_safe)
        writer.write([row_of(result) for result in page.results])
        yield len(page.results)
    if writer:
        writer.close()


def _lock(path: Path) -> BinaryIO | None:
    """The file, which is never written; None while another process holds it. A killed process holds
    no lock."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, f"{path.name} is a link, which Skitter never creates: remove it")
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b")
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its previous holder may have removed it by now.
        if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
            return file
    file.close()
    return None


def _publish(file: BinaryIO, draft: Path, target: Target) -> None:
    file.flush()
    if target.path.exists():
        os.fchmod(file.fileno(), stat.S_IMODE(target.path.stat().st_mode))
    os.fsync(file.fileno())
    written = os.fstat(file.fileno())
    if target.receipts:
        target.receipts.add(target.path, written)
    draft.replace(target.path)
    sync_directory(target.path.parent)
    if target.receipts:
        target.receipts.keep_only(target.path, written)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = why_not_written(path, error.strerror or error)
        raise SinkAway(f"{path} cannot be written: {why}.") from error
