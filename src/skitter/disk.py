"""Room on disks, and a user's place on them."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Errors for a full disk, a full quota or a file at its size limit.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def free_space(directory: Path) -> str:
    """How much space is left on a directory's disk, as text."""
    try:
        disk = os.statvfs(directory)  # as shutil does, which every command would import
    except OSError:  # the directory was deleted
        return "nothing"
    free = disk.f_bavail * disk.f_frsize
    return f"{free / 2**20:,.0f} MB" if free >= 2**20 else f"{free / 2**10:,.0f} KB"


def state_dir() -> Path:
    """Where programs of this user keep their state. OSError: the user has no home directory, like
    those of systemd's DynamicUser= and of many containers."""
    from pathlib import Path  # every command would import it

    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    if chosen.is_absolute():  # by its specification, a relative one counts as unset
        return chosen
    with suppress(RuntimeError):
        if (home := Path.home()).is_absolute() and home.is_dir():  # root would make it
            return home / ".local" / "state"
    raise FileNotFoundError(errno.ENOENT, "this user has no home directory")
