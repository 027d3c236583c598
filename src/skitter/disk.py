"""A disk that is full."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: What the system says when a disk, or our part of it, is full.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def free_space(directory: Path) -> str:
    """What is left on the disk of a directory, for people."""
    try:
        free = shutil.disk_usage(directory).free
    except OSError:  # it was removed
        return "nothing"
    return f"{free / 2**20:,.0f} MB" if free >= 2**20 else f"{free / 2**10:,.0f} KB"
