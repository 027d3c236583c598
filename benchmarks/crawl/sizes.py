"""How much of everything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Of one run."""

    pages: int
    rounds: int
    rival_pages: int  # peers are slow: a smaller site, all of it
    rival_rounds: int
    scale_s: float
    scale_rounds: int
    memory_pages: int
    profile_pages: int


FULL = Sizes(
    pages=5000,
    rounds=3,
    rival_pages=1000,
    rival_rounds=2,
    scale_s=8.0,
    scale_rounds=2,
    memory_pages=100_000,
    profile_pages=5000,
)
QUICK = Sizes(
    pages=2000,
    rounds=2,
    rival_pages=100,
    rival_rounds=1,
    scale_s=2.0,
    scale_rounds=1,
    memory_pages=5000,
    profile_pages=2000,
)
