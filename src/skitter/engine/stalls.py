"""Finds the line of user code that blocks the event loop, and with it every page of its worker.

A thread looks at the loop's stack when the loop has not ticked for a while. Two looks in a row must
find user code: on a busy machine, a process may stand still for other reasons.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Final

from skitter.spider.source_line import SourceLine, line_of_stack

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW_S: Final = 1.0
LOOK_S: Final = 0.5
MAX_LINES: Final = 100
#: How the sentence begins: crawl/reasons.py shows it while the crawl runs.
BLOCKING: Final = "a handler blocks: "


class Stalls:
    """Watches the event loop of the thread that creates it; `say` gets a sentence per line."""

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
                await asyncio.sleep(LOOK_S / 2)
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
        while not self._ended.wait(LOOK_S):
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
