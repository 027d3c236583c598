"""Full disks."""

from __future__ import annotations

import errno
import os
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
