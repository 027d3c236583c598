"""The watchdog ends a process that hangs, and shows where it hung.

A page may keep the parser busy for hours with the interpreter's lock held, so no Python code of
ours can step in; nor can it when a handler blocks. (fetch/nesting.py catches the simple cases
beforehand.) faulthandler's timer is a C thread: it prints the stack of every thread and ends the
process. The leases come back with a loss counted; after a few, the page at fault is buried.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from skitter.trust import open_append

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOK_S = 1.0
#: They share the one timer of this process: several pumps or crawlers may run in it.
_watchdogs: set[Watchdog] = set()


class Watchdog:
    """Ends the process unless `wind_up` is called in the watched thread every `stuck_s` seconds.
    Writes to `file`, or to stderr."""

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
