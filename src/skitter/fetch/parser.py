"""The program that tries to parse pages: see trial.py. It imports nothing of Skitter.

Input: the size of a page, then the page in UTF-8. Output for each: one byte.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import BinaryIO, Final

HEADER: Final = struct.Struct("<Q")
TAKEN, REFUSED = b"+", b"-"
CPU_S: Final = 1
MEMORY_BYTES: Final = 128 * 2**20


def serve(pages: BinaryIO, answers: BinaryIO) -> None:
    """Serve until the input ends, as it does when the calling process ends."""
    from selectolax.lexbor import LexborHTMLParser  # noqa: F401 - once for all copies

    while len(header := pages.read(HEADER.size)) == HEADER.size:
        size = HEADER.unpack(header)[0]
        page = pages.read(size)
        if len(page) < size:
            return
        answers.write(TAKEN if _survives(page) else REFUSED)
        answers.flush()


def _survives(page: bytes) -> bool:
    """Parse in a fork, of a process without threads, so that no lock is held."""
    child = os.fork()
    if child == 0:
        _parse_and_exit(page)
    _, status = os.waitpid(child, 0)
    return status == 0


def _parse_and_exit(page: bytes) -> None:
    try:
        from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        _limit_memory()
        LexborHTMLParser(page.decode(), options=int(LexborDocumentOptions.WO_EVENTS))
        os._exit(0)
    finally:
        os._exit(1)


def _limit_memory() -> None:
    statm = Path("/proc/self/statm")
    if statm.exists():  # elsewhere, the limit is not enforced
        in_use = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_BYTES, in_use + MEMORY_BYTES))


if __name__ == "__main__":
    # Whoever stops a crawl stops the calling process; a page must not seem to be the cause.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.path.append(sys.argv[1])
    serve(sys.stdin.buffer, sys.stdout.buffer)
