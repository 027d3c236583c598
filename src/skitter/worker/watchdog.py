"""The watchdog: a process that stands still ends itself, and says where it stood.

A page may keep the parser busy for hours, and it holds the interpreter's lock all the while, so no
Python code of ours can step in; fetch/nesting.py sees the plain cases before. Nor can it when a
handler blocks. faulthandler's timer is a thread in C: it prints where every thread stands
and leaves. The leases come back with a loss noted, and the page that did it is dead after a few.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

from skitter.valkey.trust import open_append

if TYPE_CHECKING:
    from pathlib import Path

LOOK_S = 1.0


async def watch(stuck_s: float, file: Path | None = None) -> None:
    """For ever: as long as this runs now and then, nothing happens. `file`: in place of stderr."""
    with os.fdopen(open_append(file), "ab") if file else nullcontext(sys.stderr) as there:
        try:
            while True:
                faulthandler.dump_traceback_later(stuck_s, exit=True, file=there)
                await asyncio.sleep(LOOK_S)
        finally:
            faulthandler.cancel_dump_traceback_later()
