"""What is beside an output file: its ledger and its receipts; and errors of its disk."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec

from skitter.errors import free_space
from skitter.sinks.base import BadSink, SinkAway, SinkBusy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


LITTLE_BYTES = 2**20  # less free space than this is too little for a batch and its journal


def why_not_written(path: Path, error: object) -> str:
    """What is wrong with the disk or the file, if that can be found out; else the error itself:
    SQLite calls all of it "disk I/O error"."""
    folder = path.parent
    try:
        disk = os.statvfs(folder)
    except OSError:
        return f"its folder {folder} is gone"
    if disk.f_flag & os.ST_RDONLY:
        return f"the disk of {folder.absolute()} is read-only"
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < LITTLE_BYTES:
        return f"the disk of {folder.absolute()} is full ({free_space(folder)} free)"
    if not os.access(path if path.exists() else folder, os.W_OK):
        return "this user may not write there; change that, or choose another place"
    return str(error)


def sync_directory(path: Path) -> None:
    """Force a directory's entries to disk: only then is a new or moved file safe."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_TABLE = """CREATE TABLE IF NOT EXISTS _skitter_files (
    path TEXT, size INTEGER, mtime_ns INTEGER, PRIMARY KEY (path, size, mtime_ns))"""
_OF_TYPES = """CREATE TABLE IF NOT EXISTS _skitter_files_of_types (
    of TEXT, name TEXT, PRIMARY KEY (of, name))"""
_BUSY_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Receipts:
    """Which files were written from a store. No other file may be overwritten.

    Kept in the store itself, by size and time: these survive moving the folder, and change as soon
    as somebody else writes to the file.
    """

    store: Path

    def has(self, file: os.stat_result) -> bool:
        """Whether the file is one of ours, as we wrote it."""
        if not self.store.exists():
            return False
        query = "SELECT 1 FROM _skitter_files WHERE size = ? AND mtime_ns = ?"
        return bool(self._run([(_TABLE, ()), (query, (file.st_size, file.st_mtime_ns))]))

    def add(self, path: Path, file: os.stat_result) -> None:
        """Called before the rename: if killed in between, the file is still recognised."""
        values = (str(path), file.st_size, file.st_mtime_ns)
        self._run([(_TABLE, ()), ("REPLACE INTO _skitter_files VALUES (?, ?, ?)", values)])

    def keep_only(self, path: Path, file: os.stat_result) -> None:
        """Called after the rename: the previous file is gone."""
        query = "DELETE FROM _skitter_files WHERE path = ? AND (size, mtime_ns) <> (?, ?)"
        self._run([(query, (str(path), file.st_size, file.st_mtime_ns))])

    def add_of_type(self, whole: Path, name: str) -> None:
        """Before it is written: beside the file `whole` there is one for a type of its items."""
        values = (whole.name, name)
        add = "INSERT OR IGNORE INTO _skitter_files_of_types VALUES (?, ?)"
        self._run([(_OF_TYPES, ()), (add, values)])

    def of_types(self, whole: Path) -> set[str]:
        query = "SELECT name FROM _skitter_files_of_types WHERE of = ?"
        return {name for (name,) in self._run([(_OF_TYPES, ()), (query, (whole.name,))])}

    def remove_of_type(self, whole: Path, name: str) -> None:
        """And the file, unless somebody changed it."""
        path = whole.with_name(name)
        if path.exists() and self.has(path.stat()):
            path.unlink()
        query = "DELETE FROM _skitter_files_of_types WHERE (of, name) = (?, ?)"
        self._run([(query, (whole.name, name))])

    def _run(self, statements: list[tuple[str, tuple[object, ...]]]) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        try:
            with closing(sqlite3.connect(self.store, timeout=_BUSY_TIMEOUT_S)) as db, db:
                for statement, values in statements:
                    found = db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise SinkAway(
                f"{self.store} cannot be used: {why_not_written(self.store, error)}"
            ) from error
        return found


_TABLES = """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
    CREATE TABLE places (id TEXT PRIMARY KEY, at INTEGER, size INTEGER, digest BLOB) WITHOUT ROWID;
"""
_LAST = """
    SELECT id, at, size, digest FROM places WHERE id > ? AND id < ? ORDER BY at DESC LIMIT 1
"""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_ALIEN = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


class Place(NamedTuple):
    """Where a row is: its first byte, and its length in bytes."""

    id: str
    at: int
    size: int
    digest: bytes


class Ledger:
    """Which parts of one output are valid, in a small SQLite file: `out.jsonl.state` for
    `out.jsonl`.

    It records how much of the output is valid and where each row is in it. Only the process that
    has it open may write. A loader may be killed at any instruction, so every step leaves one of
    two states, divided by the ledger's commit:

    1. The output is written beyond the recorded length, and forced to disk.
    2. One ledger transaction records the new rows and the new length.  <- from here they count
    3. The caller acknowledges.

    Killed before 2: the next opening truncates the output, and the unacknowledged rows are
    delivered again. Killed between 2 and 3: they are delivered again too, found here, and skipped.
    *All* ids are kept, not only those of the last batch, because a dead loader's rows come back
    only after its successor has written others.

    A file with changed rows is first written in full under another name; the transaction then
    records the new places *and* the pending rename; the rename follows, and the next opening
    repeats it if it did not happen.
    """

    def __init__(self, output: Path, *, job: str) -> None:
        self.output = output
        self.draft = output.with_name(f".{output.name}.draft")
        self._path = state_path(output)
        if not output.parent.is_dir():
            raise BadSink(f"there is no directory {output.parent}: create it first.")
        with self.guard():
            self._db = sqlite3.connect(
                self._path, timeout=0, isolation_level=None, check_same_thread=False
            )
        try:
            with self.guard():
                self._lock()
                self._begin_or_resume(job)
        except BaseException:
            self._db.close()
            raise

    def _lock(self) -> None:
        # The kernel releases SQLite's locks with the process, so there is no stale lock to clear.
        # EXCLUSIVE before WAL: no shared-memory file, and the lock stays between transactions.
        # FULL: a commit is on disk when it returns; in WAL mode NORMAL would wait for the next
        # checkpoint, and a power cut could undo rows that were acknowledged.
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("BEGIN EXCLUSIVE")
        self._db.execute("COMMIT")

    def _begin_or_resume(self, job: str) -> None:
        if self._db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            if self.output.exists() and self.output.stat().st_size:
                self._db.close()
                self._path.unlink(missing_ok=True)
                raise BadSink(
                    f"{self.output} already exists, but not {self._path.name}, which says how it "
                    "was written: choose another name, or move the file away."
                )
            self.output.touch()  # a crawl without items has an output too
            with self.transaction():
                for statement in _TABLES.strip().split(";\n"):
                    self._db.execute(statement)
                self.note("job", job)
        owner = self.fact("job", "")
        if owner != job:
            raise BadSink(
                f"{self.output} holds the items of job {owner!r}: choose another file with --out "
                "(`load`: --to)."
            )

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Translate disk and ledger errors into those that a sink may raise."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _BUSY:
                raise SinkBusy(
                    f"another process is writing {self.output}: wait, or choose another file."
                ) from error
            if code in _ALIEN:
                raise BadSink(f"{self._path} is not a Skitter ledger: {error}.") from error
            raise self._away(error) from error
        except OSError as error:
            raise self._away(error.strerror or error) from error

    def _away(self, error: object) -> SinkAway:
        return SinkAway(f"{self.output} cannot be written: {why_not_written(self.output, error)}")

    def fact(self, name: str, default: Any) -> Any:
        """One recorded fact about the whole output."""
        found = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return default if found is None else msgspec.json.decode(found[0])

    def note(self, name: str, value: Any) -> None:
        """Record a fact, inside a transaction."""
        self._db.execute("REPLACE INTO facts VALUES (?, ?)", (name, msgspec.json.encode(value)))

    def digests(self, ids: list[str]) -> dict[str, bytes]:
        """The digests of those ids that are in the output."""
        found: dict[str, bytes] = {}
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            marks = ",".join("?" * len(part))
            query = f"SELECT id, digest FROM places WHERE id IN ({marks})"
            found.update(self._db.execute(query, part))
        return found

    def places(self) -> Iterator[Place]:
        """All current rows, in the order of the output."""
        cursor = self._db.execute("SELECT id, at, size, digest FROM places ORDER BY at, size")
        return map(Place._make, cursor)

    def last_of(self, page: str) -> Place | None:
        """The row of a page that was written last."""
        found = self._db.execute(_LAST, (f"{page}-", f"{page}.")).fetchone()
        return None if found is None else Place._make(found)

    def count(self) -> int:
        found: int = self._db.execute("SELECT count(*) FROM places").fetchone()[0]
        return found

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Everything recorded inside is committed together at the end."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite rolls back on its own when the disk is full
                self._db.execute("ROLLBACK")
            raise

    def record(self, places: Iterable[Place]) -> None:
        """Record where rows are now; replaces earlier places of the same ids."""
        self._db.executemany("REPLACE INTO places VALUES (?, ?, ?, ?)", places)

    def replace(self, places: Iterable[Place]) -> None:
        """Replace all places; `places` may be derived lazily from `self.places()`."""
        self._db.execute("CREATE TABLE fresh AS SELECT * FROM places WHERE false")
        self._db.executemany("INSERT INTO fresh VALUES (?, ?, ?, ?)", places)
        self._db.execute("DELETE FROM places")
        self._db.execute("INSERT INTO places SELECT * FROM fresh ORDER BY id")
        self._db.execute("DROP TABLE fresh")

    def settle(self) -> None:
        """Rename the draft if that was recorded and not done. Call this before every write: an old
        record must not find a new, unfinished draft."""
        if not self.fact("moving", default=False):
            return
        if self.draft.exists():
            self.draft.replace(self.output)
            sync_directory(self.output.parent)
        self.note("moving", False)

    def forget(self) -> None:
        """The output was removed: start over."""
        with self.transaction():
            self._db.execute("DELETE FROM places")
            self._db.execute("DELETE FROM facts WHERE name <> 'job'")

    def close(self) -> None:
        self._db.close()


def state_path(output: Path) -> Path:
    """Where the ledger of an output is."""
    return output.with_name(f"{output.name}.state")
