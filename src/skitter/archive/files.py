"""The files of an archive: which there are, and whether a process still writes to one."""

from __future__ import annotations

import fcntl
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skitter.errors import UsageError

if TYPE_CHECKING:
    from typing import BinaryIO

INDEX: Final = ".jsonl"
_WARCS: Final = ("*.warc.gz", "*.warc")


def warcs_of(folder: Path) -> list[Path]:
    return sorted(path for kind in _WARCS for path in folder.glob(kind))


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{INDEX}")


def inside(folder: Path, name: str) -> Path:
    """Lines come from files and servers that others may write."""
    if Path(name).name != name or name == ".." or "\0" in name:
        raise UsageError(f"{name!r} in the index of {folder} is not a file name.")
    return folder / name


def hold(file: BinaryIO) -> None:
    """Until it is closed, or its process dies, nobody prunes or copies it."""
    with suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def is_being_written(path: Path) -> bool:
    """A worker may have had nothing to keep for longer than what is pruned is old."""
    with path.open("rb") as file:
        return not claim(file)


def claim(file: BinaryIO) -> bool:
    """Until it is closed. False: somebody holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # any other: a file system without locks
        return not isinstance(error, BlockingIOError)
    return True
