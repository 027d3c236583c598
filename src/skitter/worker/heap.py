"""Memory that a page frees is kept for the next one.

glibc hands the end of its heap back to the system as soon as 128 KiB of it are free, and what a
parsed page frees is more. Each page then faulted its memory in anew, which took half of the time of
handling it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

#: As in malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: Free memory that a process keeps, and what is mapped by itself and handed back at once.
KEPT_BYTES: Final = 16 * 2**20
LARGE_BYTES: Final = 4 * 2**20


def keep_freed_memory() -> None:
    """For this process, from now on; nothing where the C library has no such setting."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, KEPT_BYTES)
        set_option(_MMAP_THRESHOLD, LARGE_BYTES)
