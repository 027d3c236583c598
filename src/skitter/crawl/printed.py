"""What child processes print: to a file, and from there to the terminal.

A file, not a pipe: children keep printing after their supervisor was killed, and a user's handler
must not fail because nobody reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable  # noqa: TC003
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - of a named tuple
from typing import BinaryIO, NamedTuple, Self

from skitter.errors import DirectoryUnusable
from skitter.spider.source import SourceLine, line_of_stack
from skitter.trust import open_append

#: A larger file is rotated; one old file is kept.
MAX_BYTES = 10 * 2**20
TRACEBACK = "Traceback (most recent call last)"
READ_BYTES = 64 * 2**10


#: As faulthandler prints them, the innermost call first; a blank line separates threads.
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)


class Stuck(NamedTuple):
    """Where a watchdog ended a process."""

    line: SourceLine | None  # None: it ran no code of the user's
    trace: Path

    def __str__(self) -> str:
        at = f" at {self.line}" if self.line else ""
        return f"a page was blocking it{at}; the stack trace is in {self.trace}"


def stuck_line(trace: str) -> SourceLine | None:
    """The user's line in what faulthandler printed of all threads. Pure."""
    for thread in trace.split("\n\n"):
        frames = [(file, int(line)) for file, line in _FRAME.findall(thread)]
        if line := line_of_stack(reversed(frames)):
            return line
    return None


@dataclass(slots=True)
class Output:
    """One file for the children of one job."""

    path: Path
    _at: int = 0
    _stuck_bytes: int = 0  # written by watchdogs
    _partial: bytes = b""

    @classmethod
    def of(cls, directory: Path, job: str) -> Self:
        return cls(directory / "logs" / f"{job}.log")

    def __post_init__(self) -> None:
        home = self.path.parent
        home.parent.parent.mkdir(parents=True, exist_ok=True)
        for folder in (home.parent, home):
            folder.mkdir(mode=0o700, exist_ok=True)
        if home.is_symlink():
            raise DirectoryUnusable(
                f"{home} is a symbolic link that Skitter did not create: remove it."
            )
        if _size(self.path) > MAX_BYTES:
            self.path.replace(self.path.with_suffix(".old.log"))
        self._at = _size(self.path)
        self._stuck_bytes = _size(self.stuck)

    @property
    def stuck(self) -> Path:
        """Where watchdogs write stack traces, which would clutter the terminal."""
        return self.path.with_suffix(".stuck.log")

    def find_stuck(self) -> Stuck | None:
        """Where a process hung, if a watchdog has written since the last call."""
        before, self._stuck_bytes = self._stuck_bytes, _size(self.stuck)
        if self._stuck_bytes <= before:
            return None
        with self.stuck.open("rb") as file:
            file.seek(before)
            text = file.read(READ_BYTES).decode("utf-8", "replace")
        return Stuck(stuck_line(text), self.stuck)

    def open(self) -> BinaryIO:
        """For a child; all children append to the same file."""
        return os.fdopen(open_append(self.path), "ab", buffering=0)

    def read(self) -> list[str]:
        """Whole lines since the last call; the newest, if there are too many."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            self._at = file.seek(max(self._at, size - READ_BYTES))
            found = self._partial + file.read(READ_BYTES)
            self._at = file.tell()
        *lines, self._partial = found.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]


def records(lines: Iterable[str]) -> list[str]:
    """Lines that belong together as one text: a traceback up to its exception, and what is
    indented. Pure."""
    found: list[list[str]] = []
    for line in lines:
        is_inside = line[:1].isspace()
        is_end = found and found[-1][0].startswith(TRACEBACK) and found[-1][-1][:1].isspace()
        if found and (is_inside or is_end):
            found[-1].append(line)
        else:
            found.append([line])
    return ["\n".join(one) for one in found]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
