"""Receipts: which files were written from a store. No other file may be overwritten."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skitter.sinks.base import SinkAway
from skitter.sinks.disk import why_not_written

if TYPE_CHECKING:
    import os
    from pathlib import Path

_TABLE = """CREATE TABLE IF NOT EXISTS _skitter_files (
    path TEXT, size INTEGER, mtime_ns INTEGER, PRIMARY KEY (path, size, mtime_ns))"""
_OF_TYPES = """CREATE TABLE IF NOT EXISTS _skitter_files_of_types (
    of TEXT, name TEXT, PRIMARY KEY (of, name))"""
_BUSY_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Receipts:
    """Kept in the store itself, by size and time: these survive moving the folder, and change as
    soon as somebody else writes to the file."""

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
