"""Feeding from outside: all of a batch, or a clear no."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from skitter.errors import JobClosed, QueueFull
from skitter.model import Added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.frontier.wire import Offer

FULL_PAUSE_S = 0.25


async def feed(frontier: Frontier, offers: Sequence[Offer], *, wait: bool) -> Counter[Added]:
    """Add offers. While the queue is full: wait for room, or raise QueueFull with what went in."""
    total: Counter[Added] = Counter()
    while offers:
        answers = await frontier.add_offers(offers)
        total.update(answer for answer in answers if answer is not Added.FULL)
        if total[Added.CLOSED]:
            raise JobClosed(frontier.job, (await frontier.stats()).state)
        offers = [one for one, said in zip(offers, answers, strict=True) if said is Added.FULL]
        if offers and not wait:
            limit = frontier.options.limits.max_pending or 0
            raise QueueFull(frontier.job, max_pending=limit, added=total[Added.NEW])
        if offers:
            await asyncio.sleep(FULL_PAUSE_S)
    return total
