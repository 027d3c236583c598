"""Names for SCHEDULER_QUEUE_CLASS: the order of requests within a download slot."""

from __future__ import annotations

from typing import Any, NoReturn

from skitter.errors import UsageError


class Base:
    """What they have in common: none is ever created."""

    def __init__(self, *arguments: Any, **named: Any) -> NoReturn:
        raise UsageError(
            f"{type(self).__name__} is only a name for SCHEDULER_QUEUE_CLASS: requests are in the "
            "job. Add some with `skitter push`, or with a spider that is fed."
        )


class PriorityQueue(Base):
    """Highest priority first; first come, first served within a priority."""


class FifoQueue(Base):
    """First in, first out, ignoring priority."""


class LifoQueue(Base):
    """Last in, first out, ignoring priority."""


SpiderPriorityQueue, SpiderQueue, SpiderStack = PriorityQueue, FifoQueue, LifoQueue
