"""Disk errors explained, and directories synced."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from skitter.disk import free_space

if TYPE_CHECKING:
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
