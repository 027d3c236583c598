"""The watchdog: a process that hangs ends itself, and says where it hung.

A page may keep the parser busy for hours, and it holds the interpreter's lock all the while, so no
Python code of ours can step in; fetch/nesting.py sees the plain cases before. Nor can it when a
handler blocks. faulthandler's timer is a thread in C: it prints where every thread stands and ends
the process. The leases come back with a loss noted, and the page that did it is dead after a few.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from skitter.valkey.trust import open_append

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOK_S = 1.0
#: Of this process, which has one timer for all: several pumps or crawlers may be at work in it.
_watchdogs: set[Watchdog] = set()


class Watchdog:
    """Ends the process unless `wind_up` is called, in the thread that is watched, every `stuck_s`
    seconds. It writes to `file`, or to stderr."""

    def __init__(self, stuck_s: float, file: Path | None = None) -> None:
        self._stuck_s, self._stack = stuck_s, ExitStack()
        # The real one: Celery puts something without a file behind it in its place.
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
        """Nothing is to be watched any more."""
        self._is_over = True
        _watchdogs.discard(self)
        if not _watchdogs:
            faulthandler.cancel_dump_traceback_later()
        self._stack.close()

    async def run(
        self, call: Callable[[Callable[[], None]], object] = lambda wind_up: wind_up()
    ) -> None:
        """For ever. `call` takes it to the thread that is watched, if that is another."""
        while True:
            call(self.wind_up)
            await asyncio.sleep(LOOK_S)


async def watch(stuck_s: float, file: Path | None = None) -> None:
    """Watch the event loop that this runs in, for ever."""
    with Watchdog(stuck_s, file) as watchdog:
        await watchdog.run()
