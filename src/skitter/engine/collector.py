"""Python's garbage collector, in a process of ours."""

from __future__ import annotations

import gc


def freeze_loaded_objects() -> None:
    """Exempt everything loaded so far from garbage collection: modules, spider and settings are
    45,000 objects that live as long as the process and add 20 ms to every full collection."""
    gc.freeze()
