"""How long tests wait: until it is so, or until their own time limit comes."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any, AnyStr

#: Longer than the time limit of any test that is not `chaos`, so that there is one limit to choose:
#: a busy machine is slow everywhere.
PATIENCE_S = 600.0


def until(condition: Callable[[], Any], *, deadline_s: float = PATIENCE_S) -> Any:
    """Wait for a condition; what it answered."""
    end = time.monotonic() + deadline_s
    while not (answer := condition()):
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.02)
    return answer


async def until_async(condition: Callable[[], Awaitable[Any]]) -> Any:
    """The same in an event loop, which goes on meanwhile."""
    while not (answer := await condition()):  # noqa: ASYNC110 - of another process, perhaps
        await asyncio.sleep(0.01)
    return answer


def while_there_is_time(seconds: float, *, least: int) -> Iterator[int]:
    """0, 1, 2, ... for as long as that, and `least` times in any case: on a busy machine a slow
    proof tries less, and does not fail for it."""
    until = time.monotonic() + seconds
    for number in count():
        if number >= least and time.monotonic() > until:
            return
        yield number


class Child(subprocess.Popen[AnyStr]):
    """A process that is killed when its block fails. Popen would wait for it, and a test that is
    over its time limit would become a run that never ends."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)
