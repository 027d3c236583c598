"""The feed of a RedisSpider: keys that others push messages to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """Where messages come from, the first key first."""

    keys: tuple[str, ...]
    batch_size: int = 16
