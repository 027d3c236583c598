"""Processes of a crawl that are started again whenever they were killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: How it ends if it was killed, or cannot reach the server when it starts.
KILLED, UNREACHABLE, HELD = -signal.SIGKILL, 3, 4


@dataclass
class Kept:
    """One that is started again, as systemd would do it."""

    name: str
    words: list[str]  # python -m ...
    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def begin(self) -> None:
        self.starts += 1
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.words],
                cwd=self.folder,
                env=os.environ | self.environment | {"STORM": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def output(self) -> Path:
        return self.folder / f"{self.name}-{self.starts}.log"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def is_over(self) -> bool:
        """Whether it ended well. One that ended otherwise, and was not killed, is a failure; but
        who cannot reach the server at the very start says so, and is started again; and so is one
        that ended because pages wait for a handler that no worker had."""
        if not self.process or self.is_running:
            return False
        code, said = self.process.returncode, self.output.read_text()[-2000:]
        if code == KILLED or (code == HELD and re.search(r'"unhandled":\s*{\s*"', said)):
            return False
        if code == UNREACHABLE and said.count("skitter: ") == 1:
            return False
        assert code == 0, f"{self.name} ended with {code}: {said}"
        return True

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()


def processes_of(folder: Path, word: str = "") -> list[int]:
    """The pids of those that were started for a crawl, by whomever, and have that word on their
    command line. Browsers change their directory: what all have is their environment, or at least
    the tabs, which write over it, that of their parents."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_called = not word or word.encode() in _words(entry / "cmdline")
            if is_called and _is_ours(int(entry.name), mark_of(folder).encode()):
                found.append(int(entry.name))
    return sorted(found)


def _is_ours(pid: int, mark: bytes) -> bool:
    if mark in _words(Path(f"/proc/{pid}/environ")):
        return True
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return parent > 1 and _is_ours(parent, mark)


def mark_of(folder: Path) -> str:
    return f"STORM={folder}"


def _words(file: Path) -> list[bytes]:
    return re.split(rb"[\0 ]", file.read_bytes())  # Chromium writes its own with spaces


def end_all(folder: Path) -> None:
    """And remove what libfaketime leaves of processes that were killed."""
    while pids := processes_of(folder):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for left in Path("/dev/shm").glob("*faketime_s*_*"):
        if not Path("/proc", left.name.rpartition("_")[2]).exists():
            left.unlink(missing_ok=True)
