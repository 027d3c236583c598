"""The program that tries to parse pages: see markup.py. It imports nothing of Skitter.

Input: the sizes of a page and of its base URL, and what to do, then both in UTF-8. Output for each:
one byte; if it was a function of content.py, the size of what that found, and this as JSON. A page
that takes too much memory is its last; one that takes too much time ends it, without an answer.
"""

from __future__ import annotations

import json
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import BinaryIO, Final

HEADER: Final = struct.Struct("<QQB")
SIZE: Final = struct.Struct("<Q")
#: What to do: to try to parse the page, or a function of content.py.
TRIALS: Final = (
    "parse",
    "main_text",
    "markdown",
    "whole_markdown",
    "read_data",
    "read_tables",
    "read_language",
    "read_published",
)
TAKEN, REFUSED = b"+", b"-"
CPU_S: Final = 1.0
#: What ends it after that time.
TIME_IS_UP: Final = signal.SIGPROF
MEMORY_BYTES: Final = 128 * 2**20


def serve(pages: BinaryIO, answers: BinaryIO) -> None:
    """Serve until the input ends, as it does when the calling process ends."""
    while len(header := pages.read(HEADER.size)) == HEADER.size:
        size, base_size, what = HEADER.unpack(header)
        page, base = pages.read(size), pages.read(base_size)
        if len(page) < size or len(base) < base_size:
            return
        answer = _answer(TRIALS[what], page, base)
        answers.write(answer)
        answers.flush()
        if answer == REFUSED:
            return  # who knows in what state it is


def _answer(what: str, page: bytes, base: bytes) -> bytes:
    _limit_memory()
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        if what == "parse":
            _parse(page)
            return TAKEN
        found = _read(what, page, base)
        return TAKEN + SIZE.pack(len(found)) + found
    except Exception:  # of either library, MemoryError among them
        return REFUSED
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _parse(page: bytes) -> None:
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    LexborHTMLParser(page, options=int(LexborDocumentOptions.WO_EVENTS))


def _read(what: str, page: bytes, base: bytes) -> bytes:
    import content  # type: ignore[import-not-found]  # beside this file

    return json.dumps(getattr(content, what)(page.decode(), base.decode()), default=vars).encode()


def _limit_memory() -> None:
    statm = Path("/proc/self/statm")
    if statm.exists():  # elsewhere, the limit is not enforced
        limit = int(statm.read_text().split()[0]) * resource.getpagesize() + MEMORY_BYTES
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        if most == resource.RLIM_INFINITY or limit < most:
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))


if __name__ == "__main__":
    # Whoever stops a crawl stops the calling process; a page must not seem to be the cause.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(TIME_IS_UP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {TIME_IS_UP})
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path += [sys.argv[1], str(Path(__file__).parent)]
    serve(sys.stdin.buffer, sys.stdout.buffer)
