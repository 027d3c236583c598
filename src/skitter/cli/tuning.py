"""The CPU time of our processes: when they collect garbage, and to whom they give way."""

from __future__ import annotations

import fcntl
import gc
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def begin() -> None:
    """Collect garbage from now on, but not what was imported so far, which is never freed: Python
    would scan all of it several times during start-up. Worth 15 % of the CPU time of `status`."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


#: Python 3.13's own. Pages have few cycles, and below 3.13 a twentieth of a worker's time went into
#: looking for them. Not more: a handler may make cycles of large pages.
YOUNG: Final = 2000


def tune_collector() -> None:
    """Collect less often, and exempt everything loaded so far: modules, spider and settings are
    45,000 objects that live as long as the process and add 20 ms to every full collection."""
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    gc.freeze()


#: How much workers lower their priority.
NICE: Final = 10


@contextmanager
def serving_here() -> Iterator[None]:
    """Make workers of this user that start meanwhile give way.

    The server holds a lock while it lives: a marker file would outlive a killed server.
    """
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
    """Lower this process's priority by `asked`; None: only if an HTTP server runs here, as people
    and producers wait for it."""
    os.nice(asked if asked is not None else NICE * is_served_here())


def _file() -> Path:
    from skitter.trust import state_dir  # every command would import it

    return state_dir() / "skitter" / "serving"
