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
from typing import TYPE_CHECKING, Any

from skitter.valkey.trust import open_append

if TYPE_CHECKING:
    from pathlib import Path

LOOK_S = 1.0
#: Of this process, which has one timer for all: a Celery worker with a pool of threads has several.
_watches: set[asyncio.Task[Any] | None] = set()


async def watch(stuck_s: float, file: Path | None = None) -> None:
    """For ever: as long as this runs now and then, nothing happens. `file`: in place of stderr."""
    # The real one: Celery puts something without a file behind it in its place.
    real = nullcontext(sys.__stderr__ or 2)
    with os.fdopen(open_append(file), "ab") if file else real as there:
        me = asyncio.current_task()
        _watches.add(me)
        try:
            while True:
                faulthandler.dump_traceback_later(stuck_s, exit=True, file=there)
                await asyncio.sleep(LOOK_S)
        finally:
            _watches.discard(me)
            if not _watches:
                faulthandler.cancel_dump_traceback_later()
