"""What the disk says and does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from skitter.disk import free_space

if TYPE_CHECKING:
    from pathlib import Path

LITTLE_BYTES = 2**20  # less than this is too little for a batch and its journal


def why_not_written(path: Path, error: object) -> str:
    """The disk is full or read-only, the file is not ours to write; else what the error says: to
    SQLite it is all "disk I/O error"."""
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
        return "this user may not write it"
    return str(error)


def sync_directory(path: Path) -> None:
    """Force a directory's names to the disk: a new or moved file is safe only then."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
