"""Python's garbage collector, in a process of ours."""

from __future__ import annotations

import gc
from typing import Final

#: Python 3.13's own. Pages have few cycles, and below 3.13 a twentieth of a worker's time went into
#: looking for them. Not more: a handler may make cycles of large pages.
YOUNG: Final = 2000


def tune_collector() -> None:
    """Collect less often, and exempt everything loaded so far: modules, spider and settings are
    45,000 objects that live as long as the process and add 20 ms to every full collection."""
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    gc.freeze()
