"""How long tests wait: until it is so, or until their own time limit comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
