"""Try to parse a page in a copy of this process, which may die of it."""

from __future__ import annotations

import os
import resource
import warnings
from pathlib import Path
from typing import Final

from selectolax.lexbor import LexborHTMLParser

CPU_S: Final = 1
MEMORY_BYTES: Final = 128 * 2**20


def can_be_parsed(text: str) -> bool:
    """Whether it takes a second and some memory at the most. Blocks as long."""
    with warnings.catch_warnings():
        # Python warns where there are threads: the copy could wait for a lock that one of them had.
        # It does nothing but parse, and malloc's locks survive a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _parse_and_exit(text)
    _, status = os.waitpid(child, 0)
    return status == 0


def _parse_and_exit(text: str) -> None:
    try:
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_BYTES, in_use + MEMORY_BYTES))
        LexborHTMLParser(text)
        os._exit(0)
    finally:
        os._exit(1)
