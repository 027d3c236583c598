"""Leases in hand: which are excluded, which are dangerous, and which were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.model import Ended, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skitter.frontier.frontier import Frontier
    from skitter.model import Lease
    from skitter.settings import Limits


def exclude(lease: Lease, limits: Limits) -> Failure | None:
    """How to end a lease that the operator's patterns exclude now; None: they do not."""
    why = limits.excludes_request(lease.request)
    return Failure(lease=lease, error=why, excluded_by=limits.patterns) if why else None


def is_suspect(lease: Lease, frontier: Frontier) -> bool:
    """Whether it is on its last chance and may be what kills workers: lua/lib/take.lua hands it
    out alone, and it must run alone."""
    return 0 < lease.losses >= frontier.options.retries.max_losses - 1


async def extend(frontier: Frontier, leases: Sequence[Lease], *, ttl_s: float) -> list[Lease]:
    """Extend the leases. Returns the lost ones: somebody else has their requests."""
    answers = await frontier.extend(leases, ttl_s=ttl_s) if leases else []
    said = zip(leases, answers, strict=True)
    return [lease for lease, answer in said if answer is Ended.LOST]
