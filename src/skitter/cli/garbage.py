"""Keeps the garbage collector away from what a process imports, which is never freed anyway.

Otherwise Python scans all of it several times during start-up and once more at exit: a fifth of
the CPU time of a short command.
"""

from __future__ import annotations

import gc


def hold_off() -> None:
    """Collect nothing until `begin` is called."""
    gc.disable()


def begin() -> None:
    """Start collecting, now that everything is imported: a command may run for weeks."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def leave() -> None:
    """Skip the scan at exit: the system takes back all memory at once."""
    gc.freeze()
