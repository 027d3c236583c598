"""Mend an append-only file in which the server left a gap.

A write that does not fit on a full disk is cut off again. But in a file that it opened for a
rewrite, and so not for appending, the server continues where that write had ended: once there is
room, zeros are left between two commands, and the next start fails with "Bad file format". Nothing
is missing: what did not fit is written again behind the gap.

But the server also takes the file for shorter than it is, by the gap: a second write that does not
fit cuts off what was written before. That cannot be mended; `Server` prevents it with a rewrite
after a full disk (frontier/connection.py). Seen with Valkey 9.1.2 and Redis 7.0.15.
"""

from __future__ import annotations

import os
import re
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_COMPLAINT = re.compile(r"Bad file format reading the append only file ([\w.]+):")
#: A command is `*2`, then `$3` and `GET` for each word, all ended by CRLF.
_WORDS = re.compile(rb"\*(\d+)\r\n")
_LENGTH = re.compile(rb"\$(\d+)\r\n")
_ZEROS = re.compile(rb"\0+")


def mend(directory: Path, log_text: str) -> bool:
    """Close the gaps in the file that the server complains about. False: there are none."""
    complaint = _COMPLAINT.search(log_text)
    return complaint is not None and close_gaps(directory / "appendonlydir" / complaint[1])


def close_gaps(file: Path) -> bool:
    """Remove zeros between commands, and no other byte. False: there are none, or more is wrong."""
    with file.open("rb") as damaged, mmap(damaged.fileno(), 0, access=ACCESS_READ) as content:
        gaps = _gaps(content)
        if not gaps:
            return False
        draft, kept = file.with_name(f"temp-{file.name}"), 0
        draft.touch(mode=0o600)
        with draft.open("wb") as mended, memoryview(content) as view:
            for start, end in [*gaps, (len(content), 0)]:
                mended.write(view[kept:start])
                kept = end
            mended.flush()
            os.fsync(mended.fileno())
    draft.replace(file)
    return True


def _gaps(content: mmap) -> list[tuple[int, int]]:
    """Start and end of the zeros between commands. None if there is anything else between them."""
    gaps: list[tuple[int, int]] = []
    at = 0
    while at < len(content):
        if end := _end_of_command(content, at):
            at = end
        elif gap := _ZEROS.match(content, at):
            gaps.append(gap.span())
            at = gap.end()
        else:
            return []
    return gaps


def _end_of_command(content: mmap, at: int) -> int:
    """0: none begins there. Beyond the file: it is cut off, which the server mends itself."""
    if not (words := _WORDS.match(content, at)):
        return 0
    end = words.end()
    for _ in range(int(words[1])):
        if not (length := _LENGTH.match(content, end)):
            return 0
        end = length.end() + int(length[1]) + 2
        if end > len(content):
            break
        if content[end - 2 : end] != b"\r\n":
            return 0
    return end
