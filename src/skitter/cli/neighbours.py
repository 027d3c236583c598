"""Workers yield the CPU to an HTTP server on the machine, as people and producers wait for it.

The server holds a lock while it lives: a marker file would outlive a killed server.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from skitter.disk import state_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: How much workers lower their priority.
NICE: Final = 10


@contextmanager
def serving_here() -> Iterator[None]:
    """Make workers of this user that start meanwhile give way."""
    with ExitStack() as stack:
        with suppress(OSError):  # no place for the lock file
            file = _file()
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fcntl.flock(stack.enter_context(file.open("w")), fcntl.LOCK_SH)
        yield


def is_served_here() -> bool:
    """Whether an HTTP server runs on this machine."""
    try:
        with _file().open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # none ever did
        return False
    return False


def give_way(asked: int | None) -> None:
    """Lower this process's priority by `asked`; None: only if an HTTP server runs here."""
    os.nice(asked if asked is not None else NICE * is_served_here())


def _file() -> Path:
    return state_dir() / "skitter" / "serving"
