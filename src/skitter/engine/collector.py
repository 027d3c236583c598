"""Python's garbage collector, in a process of ours."""

from __future__ import annotations

import gc


def spare_what_is_loaded() -> None:
    """Modules, spiders and settings stay until the process ends: 45,000 objects, which cost every
    full collection 20 ms, and pages wait for it."""
    gc.freeze()
