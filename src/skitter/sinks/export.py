"""Rows of a store: written to a file, or read back."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from glob import escape
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, Literal

from skitter.model import TYPE
from skitter.sinks.base import BadSink, SinkAway, open_on_thread
from skitter.sinks.columns import OWN
from skitter.sinks.files.csv import CsvFormat
from skitter.sinks.files.jsonl import JsonlFile, JsonlFormat
from skitter.sinks.files.ledger import state_path, sync_directory, why_not_written
from skitter.sinks.registry import COPY_FILES, find_type, is_database, load, open_database
from skitter.sinks.rows import result_of, row_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator
    from typing import BinaryIO

    from skitter.model import Result
    from skitter.sinks.base import FileFormat
    from skitter.sinks.comparison import Change
    from skitter.sinks.databases.sql import SqlTable
    from skitter.sinks.databases.stored_table import Page
    from skitter.sinks.files.ledger import Receipts
    from skitter.sinks.selection import Selected, Selection


_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class OfType:
    """The rows of one type, and its columns: the field `_type` says which."""

    table: SqlTable
    name: str
    columns: frozenset[str]

    def read(self, *, batch: int) -> Generator[Page]:
        for page in self.table.read(batch=batch):
            columns = {name: kind for name, kind in page.columns.items() if name in self.columns}
            rows = [result for result in page.results if result.item.get(TYPE) == self.name]
            yield type(page)(columns, rows)


def types_of(table: SqlTable) -> list[OfType]:
    """The types in a table, each with the columns that its rows fill; none if it has no types."""
    filled: dict[str, set[str]] = {}
    for page in table.read(batch=_BATCH):
        if TYPE not in page.columns:
            return []
        for result in page.results:
            if name := result.item.get(TYPE):
                names = (field for field, value in result.item.items() if value is not None)
                filled.setdefault(str(name), set(OWN)).update(names)
    return [
        OfType(table, name, frozenset(names - {TYPE})) for name, names in sorted(filled.items())
    ]


if TYPE_CHECKING:
    Readable = SqlTable | OfType | Selected

_ROWS_AT_A_TIME = 500
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


def check_folder(path: Path) -> None:
    """Raise BadSink if no file can be created there: better now than at the end of a crawl."""
    with disk_errors(path):
        try:
            TemporaryFile(dir=path.absolute().parent).close()
        except OSError as error:
            if error.errno in _PASSING:
                raise
            why = why_not_written(path, error.strerror)
            raise BadSink(f"cannot write {path}: {why}.") from error


async def write_feed(dsn: str, path: Path, *, job: str) -> int:
    """Add the changes that the file does not have yet; each once, however often this is killed.
    Returns how many."""
    async with open_on_thread(partial(JsonlFile, str(path), job=job)) as file:
        before, after = await file.run(file.store.count), 0
        while found := await read_feed(dsn, job=job, after=after, limit=_BATCH):
            after = found[-1].seq
            await file.write([_line_of(change) for change in found])
        return await file.run(file.store.count) - before


def _line_of(change: Change) -> Result:
    item = {
        "kind": change.kind,
        "key": change.key,
        "field": change.field,
        "old": change.old,
        "new": change.new,
    }
    return result_of(f"change{change.seq}-0", change.url, datetime.fromisoformat(change.at), item)


async def read_feed(dsn: str, *, job: str, **which: Any) -> list[Change]:
    """What later visits found: those that `read_changes` of a store selects. Raises BadSink."""
    async with open_on_thread(partial(open_database, dsn, job=job)) as source:
        found: list[Change] = await source.run(partial(source.store.read_changes, **which))
        return found


async def export(
    dsn: str,
    target: Target,
    *,
    job: str,
    table: str | None = None,
    selection: Selection | None = None,
) -> int:
    """Write the job's current rows, or some of them: either the old file or the new one exists,
    never half. Returns how many.

    The rows go to a draft beside the file, which is then renamed. Its name is random and new:
    whoever can write to that folder cannot have put a link there. A second file is locked: the
    second of two exports to one file waits, so older rows never replace newer ones.
    """
    async with open_on_thread(partial(open_database, dsn, job=job, table=table)) as source:
        what = selection.of(source.store) if selection else source.store
        return await _export(source, what, target)


async def export_types(dsn: str, target: Target, *, job: str) -> None:
    """If its items are of several types: a file for each, such as shop.book.csv of shop.csv. That
    of a type without any row goes."""
    if (receipts := target.receipts) is None:
        return
    whole = target.path
    async with open_on_thread(partial(open_database, dsn, job=job)) as source:
        old = receipts.of_types(whole)
        for part in await source.run(types_of, source.store):
            path = whole.with_suffix(f".{part.name}{whole.suffix}")
            old.discard(path.name)
            receipts.add_of_type(whole, path.name)
            await _export(source, part, replace(target, path=path))
        with disk_errors(whole):
            for name in old:
                receipts.remove_of_type(whole, name)


async def _export(source: Any, table: Readable, target: Target) -> int:
    target.check()
    check_folder(target.path)
    rows, steps = 0, _write(table, target)
    try:
        while (some := await source.run(next, steps, None)) is not None:
            rows += some
    finally:
        await source.run(steps.close)
    return rows


def _write(table: Readable, target: Target) -> Generator[int]:
    """Runs in steps, so that it can be cancelled; each yields how many rows it wrote."""
    with disk_errors(target.path), locked(target.lock) as waits:
        yield from waits
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


def _fill(file: BinaryIO, table: Readable, target: Target) -> Iterator[int]:
    writer: FileFormat | None = None
    for page in table.read(batch=_ROWS_AT_A_TIME):
        writer = writer or target.format()(file, page.columns, safe=target.csv_safe)
        writer.write([row_of(result) for result in page.results])
        yield len(page.results)
    if writer:
        writer.close()


@contextmanager
def locked(path: Path) -> Iterator[Iterator[int]]:
    """Hold a lock file, which goes at the end. Run through what this gives first: it waits, in
    steps, while another process has the lock."""
    with ExitStack() as held:

        def waits() -> Iterator[int]:
            while (lock := _lock(path)) is None:
                yield 0
                time.sleep(_LOOK_AGAIN_S)
            held.enter_context(lock)
            held.callback(path.unlink, missing_ok=True)

        yield waits()


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
def disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = why_not_written(path, error.strerror or error)
        raise SinkAway(f"{path} cannot be written: {why}.") from error


Format = Literal["ndjson", "csv"]
FORMATS: dict[Format, type[FileFormat]] = {"ndjson": JsonlFormat, "csv": CsvFormat}
BATCH = 500
CHUNK_BYTES = 2**18
LINE_BYTES = 2**24


async def read_page(dsn: str, *, job: str, after: str, limit: int) -> list[tuple[str, bytes]]:
    """The rows after a position, each with its own position, as JSON lines. Raises BadSink."""
    if not is_database(dsn):
        return await asyncio.to_thread(_read_lines, Path(dsn), _number(after), limit)
    async with open_on_thread(partial(open_database, dsn, job=job)) as source:
        found = await source.run(source.store.page, after, limit)
    rows = map(row_of, found)
    return [(row.id, row.line) for row in rows]


@asynccontextmanager
async def open_export(dsn: str, *, job: str, format: Format) -> AsyncIterator[AsyncIterator[bytes]]:
    """All current rows, in chunks. Raises BadSink."""
    if is_database(dsn):
        async with open_on_thread(partial(open_database, dsn, job=job)) as source:
            pages = source.store.read(batch=BATCH)
            try:
                yield _parts(await source.run(next, pages), source, pages, FORMATS[format])
            finally:
                await source.run(pages.close)
    elif format == "ndjson":
        with _open(Path(dsn)) as file:
            yield _copy(file)
    else:
        raise BadSink("a JSON Lines file can only be exported as ndjson.")


async def _parts(
    first: Page, source: Any, pages: Any, format: type[FileFormat]
) -> AsyncIterator[bytes]:
    file = BytesIO()
    writer = format(file, first.columns, safe=True)
    page: Page | None = first
    while page is not None:
        writer.write([row_of(result) for result in page.results])
        if part := file.getvalue():
            yield part
        file.seek(0)
        file.truncate()
        page = await source.run(next, pages, None)


async def _copy(file: Any) -> AsyncIterator[bytes]:
    while part := await asyncio.to_thread(file.read, CHUNK_BYTES):
        yield part


def _read_lines(path: Path, start: int, limit: int) -> list[tuple[str, bytes]]:
    """A line's position is where the next one begins. A changed row may appear several times."""
    found: list[tuple[str, bytes]] = []
    with _open(path) as file:
        file.seek(start)
        while len(found) < limit and (line := file.readline(LINE_BYTES)).endswith(b"\n"):
            found.append((str(file.tell()), line.rstrip(b"\n")))
    return found


def _open(path: Path) -> Any:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise BadSink(
            f"there is no file {path}: nothing was stored yet, or it was moved."
        ) from None
    except OSError as error:
        raise SinkAway(f"cannot read {path}: {error.strerror}.") from error


def _number(after: str) -> int:
    return int(after) if after.isdigit() and len(after) < 20 else 0
