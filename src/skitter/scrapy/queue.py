"""Names for SCHEDULER_QUEUE_CLASS: the order of requests within a download slot."""

from __future__ import annotations


class PriorityQueue:
    """Highest priority first; first come, first served within a priority."""


class FifoQueue:
    """First in, first out, ignoring priority."""


class LifoQueue:
    """Last in, first out, ignoring priority."""


SpiderPriorityQueue, SpiderQueue, SpiderStack = PriorityQueue, FifoQueue, LifoQueue
