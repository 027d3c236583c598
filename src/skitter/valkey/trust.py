"""Whether a directory is ours alone. Anyone who can write to it decides where the server listens
and what it logs to; a `.skitter` from somebody's archive or repository is not ours.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from skitter.errors import DirectoryUnusable

if TYPE_CHECKING:
    from pathlib import Path

GROUP_OR_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
GROUP_OR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_ours(directory: Path) -> None:
    """Refuse a directory that others own or can write to, and links in it. Raises OSError."""
    for found in (directory.lstat(), directory.stat()):  # our own link may point there
        if found.st_uid != os.geteuid():
            raise _not_ours(directory, found.st_uid)
    if found.st_mode & GROUP_OR_OTHERS_WRITE:
        raise DirectoryUnusable(
            f"other users can write to {directory} (mode {stat.S_IMODE(found.st_mode):o}), and so "
            f"control the server: if you trust its contents, run `chmod go-w {directory}`; if not, "
            "remove it or choose another with --dir."
        )
    with os.scandir(directory) as entries:
        for entry in entries:
            _check_entry(directory, entry)


def _check_entry(directory: Path, entry: os.DirEntry[str]) -> None:
    if entry.is_symlink():
        raise DirectoryUnusable(
            f"{directory / entry.name} is a link, which Skitter never creates: "
            "remove it, or choose another directory with --dir."
        )
    owner = entry.stat(follow_symlinks=False).st_uid
    if owner != os.geteuid():
        raise _not_ours(directory / entry.name, owner)


def _not_ours(path: Path, owner: int) -> DirectoryUnusable:
    return DirectoryUnusable(
        f"{path} belongs to another user (uid {owner}): run as that user, or choose a directory "
        "of your own with --dir or SKITTER_DIR."
    )


def read_private(path: Path) -> str:
    """Read a file that only we may read or write, unmodified by others; never through a link."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, errors="replace") as file:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & GROUP_OR_OTHERS:
            raise DirectoryUnusable(
                f"{path} is not as Skitter wrote it (owner uid {found.st_uid}, mode "
                f"{stat.S_IMODE(found.st_mode):o}), so it is ignored: remove it, then start "
                "again; the data beside it stays."
            )
        return file.read()


def open_append(path: Path) -> int:
    """A descriptor for appending to one of our files; never through a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)
