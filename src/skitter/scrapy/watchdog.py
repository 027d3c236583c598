"""The watchdog of a node: a process whose engine stands still ends itself, and says where it stood.

A callback that blocks for ever would keep its leases for ever, for the node's thread goes on. As in
worker/watchdog.py, the timer is a thread in C, and the engine's thread winds it up.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.scrapy.internals import ScrapyEngine

LOOK_S = 1.0


class Watchdog:
    """Of one node. The timer is the process's: of two crawlers, each winds it up."""

    def __init__(self, engine: ScrapyEngine, stuck_s: float) -> None:
        self._engine, self._stuck_s = engine, stuck_s
        self._is_on = stuck_s > 0

    async def watch(self) -> None:
        """In the node's thread, for ever."""
        while self._is_on:
            self._engine.call(self._wind_up)
            await asyncio.sleep(LOOK_S)

    def end(self) -> None:
        """In the engine's thread: nothing is to be watched any more."""
        if self._is_on:
            self._is_on = False
            faulthandler.cancel_dump_traceback_later()

    def _wind_up(self) -> None:
        if self._is_on and sys.__stderr__ is not None:
            with suppress(ValueError, OSError):  # it is closed
                faulthandler.dump_traceback_later(self._stuck_s, exit=True, file=sys.__stderr__)
