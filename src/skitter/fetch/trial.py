"""Try to parse a page in another process, which may die in the attempt.

Each process has one small helper, a separate program (parser.py). Not a fork: a worker has threads,
signal handlers and connections that a fork would share; it could wait forever for a lock that one
of the threads held, and a Ctrl-C that reaches it would count twice here.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Final

import selectolax

from skitter.fetch.parser import HEADER, REFUSED, TAKEN, TIME_IS_UP

#: The helper limits CPU time. This is for a helper that hangs, not for a busy machine.
LONGEST_S: Final = 60.0
_PROGRAM: Final = Path(__file__).with_name("parser.py")
_LIBRARY: Final = Path(selectolax.__file__).parents[1]


def can_be_parsed(text: str) -> bool:
    """Whether parsing takes at most a second and some memory. Blocks that long."""
    return _helper().can_be_parsed(text.encode(errors="replace"))


def thread() -> ThreadPoolExecutor:
    """The thread to wait in: only one, as there is one helper."""
    return _helper().thread


@dataclass(slots=True)
class _Helper:
    thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="skitter-trial")
    )
    _turn: Lock = field(default_factory=Lock)
    _process: subprocess.Popen[bytes] | None = None

    def can_be_parsed(self, text: bytes) -> bool:
        with self._turn:
            # The helper may have been killed while idle; then a new one is asked.
            answer = self._ask(text) or self._ask(text)
        return answer == TAKEN

    def _ask(self, text: bytes) -> bytes:
        """The helper's answer; empty: none."""
        process = self._process = self._process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            until = time.monotonic() + LONGEST_S
            is_sent = _send(process.stdin, HEADER.pack(len(text)) + text, until)
            is_answered = is_sent and _is_ready(process.stdout, select.POLLIN, until)
            answer = process.stdout.read(1) if is_answered else b""
        except BrokenPipeError:
            answer = b""
        except BaseException:  # the next page must not get the answer to this one
            self.end()
            raise
        if answer != TAKEN and self.end() == -TIME_IS_UP:
            return REFUSED
        return answer

    def end(self) -> int | None:
        """What it exited with."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()  # no effect if it has ended
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # it flushes
                    pipe.close()
        return process.wait()


#: By pid: a fork of this process (Celery's pool makes some) must not use the same helper.
_helpers: dict[int, _Helper] = {}


def _helper() -> _Helper:
    return _helpers.setdefault(os.getpid(), _Helper())


@atexit.register
def _end() -> None:
    if helper := _helpers.get(os.getpid()):
        helper.end()


def _start() -> subprocess.Popen[bytes]:
    # -I: nothing from the environment or the working folder. It ends when its input does.
    command = [sys.executable, "-I", "-S", str(_PROGRAM), str(_LIBRARY)]
    process = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    return process


def _send(pipe: IO[bytes], data: bytes, until: float) -> bool:
    """Whether all of it was taken in time: a helper may be suspended."""
    rest = memoryview(data)
    while rest and _is_ready(pipe, select.POLLOUT, until):
        rest = rest[pipe.write(rest) :]
    return not rest


def _is_ready(pipe: IO[bytes], for_what: int, until: float) -> bool:
    waiting = select.poll()  # not select: a worker may have a thousand connections
    waiting.register(pipe, for_what)
    return bool(waiting.poll(1000 * max(0.0, until - time.monotonic())))
