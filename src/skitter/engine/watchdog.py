"""Finds what hangs: processes, and lines of user code that block the event loop."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time
import traceback
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Self

from skitter.spider.source import SourceLine, line_of_stack
from skitter.trust import open_append

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


LOOK_S = 1.0
#: They share the one timer of this process: several pumps or crawlers may run in it.
_watchdogs: set[Watchdog] = set()


class Watchdog:
    """Ends a process that hangs, and shows where it hung: in the watched thread, `wind_up` is to be
    called every `stuck_s` seconds. Writes to `file`, or to stderr.

    A page may keep the parser busy for hours with the interpreter's lock held, so no Python code of
    ours can step in; nor can it when a handler blocks. (fetch/html/markup.py catches the simple
    cases beforehand.) faulthandler's timer is a C thread: it prints the stack of every thread and
    ends the process. The leases come back with a loss counted; after a few, the page at fault is
    buried.
    """

    def __init__(self, stuck_s: float, file: Path | None = None) -> None:
        self._stuck_s, self._stack = stuck_s, ExitStack()
        # The real one: Celery replaces sys.stderr by an object without a file.
        self._to: Any = sys.__stderr__ or 2
        if file:
            self._to = self._stack.enter_context(os.fdopen(open_append(file), "ab"))
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def wind_up(self) -> None:
        if not self._is_over:
            _watchdogs.add(self)
            with suppress(ValueError, OSError):  # stderr is closed
                faulthandler.dump_traceback_later(self._stuck_s, exit=True, file=self._to)

    def end(self) -> None:
        """Stop watching."""
        self._is_over = True
        _watchdogs.discard(self)
        if not _watchdogs:
            faulthandler.cancel_dump_traceback_later()
        self._stack.close()

    async def run(
        self, call: Callable[[Callable[[], None]], object] = lambda wind_up: wind_up()
    ) -> None:
        """Wind up forever. `call` does it in the watched thread, if that is another one."""
        while True:
            call(self.wind_up)
            await asyncio.sleep(LOOK_S)


async def watch(stuck_s: float, file: Path | None = None) -> None:
    """Watch the event loop this runs in, forever."""
    with Watchdog(stuck_s, file) as watchdog:
        await watchdog.run()


SLOW_S: Final = 1.0
STALL_LOOK_S: Final = 0.5
MAX_LINES: Final = 100
#: How the sentence begins: crawl/findings.py shows it while the crawl runs.
BLOCKING: Final = "a handler blocks: "


class Stalls:
    """Finds the line of user code that blocks the event loop, and with it every page of its worker.

    It watches the loop of the thread that creates it; `say` gets a sentence per line. A thread
    looks at the loop's stack when the loop has not ticked for a while. Two looks in a row must find
    user code: on a busy machine, a process may stand still for other reasons.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._thread_id = say, threading.get_ident()
        self._ticked_at = time.monotonic()
        self._seen: tuple[float, SourceLine] | None = None  # in which stall, where
        self._sure = False
        self._said: set[tuple[str, int]] = set()
        self._ended = threading.Event()

    async def run(self) -> None:
        """Forever."""
        watcher = threading.Thread(target=self._watch, name="skitter-stalls", daemon=True)
        watcher.start()
        try:
            while True:
                self._tick(time.monotonic())
                await asyncio.sleep(STALL_LOOK_S / 2)
        finally:
            self._ended.set()

    def _tick(self, now: float) -> None:
        """The loop goes on: only now is it known how long it stood still."""
        seen, sure, stood_s = self._seen, self._sure, now - self._ticked_at
        self._ticked_at, self._seen, self._sure = now, None, False
        if seen is None or not sure:
            return
        line = seen[1]
        if (line.file, line.line) in self._said or len(self._said) >= MAX_LINES:
            return
        self._said.add((line.file, line.line))
        self._say(
            f"{BLOCKING}{line} held up every page of its worker for {stood_s:.1f} s. Await it, or "
            "move it to a thread: `await asyncio.to_thread(...)`."
        )

    def _watch(self) -> None:
        while not self._ended.wait(STALL_LOOK_S):
            at = self._ticked_at
            if time.monotonic() - at > SLOW_S:
                self._look(at)

    def _look(self, at: float) -> None:
        frame = sys._current_frames().get(self._thread_id)
        stack = [(one.f_code.co_filename, number) for one, number in traceback.walk_stack(frame)]
        line = line_of_stack(reversed(stack)) if frame else None
        if line is None or self._ticked_at != at:
            return
        if self._seen is None or self._seen[0] != at:
            self._seen = at, line
        else:
            self._sure = True
