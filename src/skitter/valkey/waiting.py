"""Waiting for another process, and telling someone about it."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

Progress = Callable[[str], None]
"""Takes a sentence on what we are waiting for, about once a second."""

PAUSE_S = 0.02
REPORT_EVERY_S = 1.0


class Wait:
    """One wait of unknown length: pauses between two looks, reports, and knows when to give up."""

    def __init__(self, progress: Progress | None, *, patience_s: float = float("inf")) -> None:
        self._progress = progress
        self._patience_s = patience_s
        self._reported = time.monotonic()
        self.restart()

    def restart(self) -> None:
        """There was a sign of life: start counting again."""
        self._since = time.monotonic()

    @property
    def too_long(self) -> bool:
        """Whether it is time to give up."""
        return time.monotonic() - self._since > self._patience_s

    def pause(self, reason: str) -> None:
        """Let a moment pass before the next look."""
        # Not time.sleep: it waits for an absolute moment of the monotonic clock, which fails with
        # EINVAL under libfaketime: that shifts it by as much as the time of day.
        select.select([], [], [], PAUSE_S)
        if self._progress and time.monotonic() - self._reported >= REPORT_EVERY_S:
            self._reported = time.monotonic()
            self._progress(reason)
