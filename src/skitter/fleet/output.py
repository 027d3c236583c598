"""What child processes print, in a file, and from there to whoever watches.

A file and no pipe: a child whose supervisor was killed goes on printing, and a handler of the
user's must not fail because nobody reads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from skitter.errors import DirectoryUnusable
from skitter.valkey.trust import open_append

if TYPE_CHECKING:
    from pathlib import Path

#: A file that grew beyond this is begun anew; the one before is kept beside it.
TOO_BIG = 10 * 2**20
AT_ONCE = 64 * 2**10


@dataclass(slots=True)
class Output:
    """One file for the children of one job; `read` gives what came since the last time."""

    path: Path
    _at: int = 0
    _stood_still: int = 0  # bytes of what watchdogs wrote
    _half: bytes = b""

    def __post_init__(self) -> None:
        home = self.path.parent
        home.parent.parent.mkdir(parents=True, exist_ok=True)
        for folder in (home.parent, home):
            folder.mkdir(mode=0o700, exist_ok=True)
        if home.is_symlink():
            raise DirectoryUnusable(f"{home} is a link, which Skitter never makes: remove it.")
        if self.path.exists() and self.path.stat().st_size > TOO_BIG:
            self.path.replace(self.path.with_suffix(".old.log"))
        self._at = self.path.stat().st_size if self.path.exists() else 0
        self._stood_still = self._dumped()

    @property
    def stuck(self) -> Path:
        """Where watchdogs write, which is for nobody's terminal."""
        return self.path.with_suffix(".stuck.log")

    def tell_stuck(self) -> str:
        """What to say of a death, if a watchdog wrote since the last time."""
        before, self._stood_still = self._stood_still, self._dumped()
        return f"; it stood still, where is in {self.stuck}" if self._stood_still > before else ""

    def _dumped(self) -> int:
        return self.stuck.stat().st_size if self.stuck.exists() else 0

    def open(self) -> BinaryIO:
        """For a child: others append to the same file."""
        return os.fdopen(open_append(self.path), "ab", buffering=0)

    def read(self) -> list[str]:
        """Whole lines; of a flood, the newest."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            self._at = file.seek(max(self._at, size - AT_ONCE))
            found = self._half + file.read(AT_ONCE)
            self._at = file.tell()
        *lines, self._half = found.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]
