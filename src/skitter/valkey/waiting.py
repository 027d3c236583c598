"""Wait for another process, and report it."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

Progress = Callable[[str], None]
"""Takes a sentence on what we are waiting for, about once a second."""

PAUSE_S = 0.02
REPORT_EVERY_S = 1.0


class Wait:
    """One wait of unknown length: pauses between checks, reports, knows when to give up."""

    def __init__(self, progress: Progress | None, *, patience_s: float = float("inf")) -> None:
        self._progress = progress
        self._patience_s = patience_s
        self._reported = time.monotonic()
        self.restart()

    def restart(self) -> None:
        """Reset the deadline, after a sign of life."""
        self._since = time.monotonic()

    @property
    def too_long(self) -> bool:
        """Whether it is time to give up."""
        return time.monotonic() - self._since > self._patience_s

    def pause(self, reason: str) -> None:
        """Pause briefly before the next check."""
        # Not time.sleep: it waits for an absolute time of the monotonic clock, which fails with
        # EINVAL under libfaketime, which shifts that clock along with the time of day.
        select.select([], [], [], PAUSE_S)
        if self._progress and time.monotonic() - self._reported >= REPORT_EVERY_S:
            self._reported = time.monotonic()
            self._progress(reason)
