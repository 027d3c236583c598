"""Names for SCHEDULER_QUEUE_CLASS: in which order requests of a download slot go out."""

from __future__ import annotations


class PriorityQueue:
    """The highest priority first, and the first come within it."""


class FifoQueue:
    """The first come first, whatever its priority."""


class LifoQueue:
    """The last come first, whatever its priority."""


SpiderPriorityQueue, SpiderQueue, SpiderStack = PriorityQueue, FifoQueue, LifoQueue
