"""Options: small frozen values, units in their names, checked once.

A job has two kinds of options. `JobOptions` may change while it runs: every worker obeys the new
value at its next lease. `Layout` decides what a fingerprint is and where it lives, so it is fixed
when the job is created.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, Self

from skitter.errors import BadJobName, BadOption
from skitter.urls import Canonical

MAX_PRIORITY = 1000
#: The server takes half a second for so many items of one page.
MOST_PER_PAGE = 100_000

_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Politeness:
    """How gently each host is treated, by all workers together."""

    delay_s: float = 1.0
    max_in_flight: int = 1

    def __post_init__(self) -> None:
        check_number("delay_s", self.delay_s, low=0, high=86_400)
        check_number("max_in_flight", self.max_in_flight, low=1, high=100_000, whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """What happens to a URL that fails, and to one whose worker vanishes."""

    max_retries: int = 3
    max_losses: int = 3
    base_s: float = 2.0
    cap_s: float = 300.0

    def __post_init__(self) -> None:
        check_number("max_retries", self.max_retries, low=0, high=1000, whole=True)
        check_number("max_losses", self.max_losses, low=1, high=1000, whole=True)
        check_number("base_s", self.base_s, low=0, high=86_400)
        check_number("cap_s", self.cap_s, low=0, high=30 * 86_400)

    def backoff_s(self, attempt: int, *, chance: float) -> float:
        """Full jitter: anywhere from nothing to the exponential step, never above the cap."""
        return min(self.cap_s, self.base_s * 2.0 ** min(attempt, 60)) * chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where the crawl ends, and how much may wait. None: no limit.

    `max_pages` is exact, over all workers and shards; lowered, or set late, it takes nothing away
    from pages that are done or under way. In a job of several shards each has an even part of
    `max_pending` and `max_items`, so that one may be full while others have room. What a page
    brings beyond `max_items_per_page` and `max_links_per_page` is left out and counted: these two
    always hold, as a page is completed in one step, during which the server does nothing else.
    """

    max_pages: int | None = None
    max_pages_per_host: int | None = None
    max_depth: int | None = None
    max_pending: int | None = None
    max_items: int | None = None  # results that wait for a loader; beyond it, nothing is handed out
    max_items_per_page: int = 10_000
    max_links_per_page: int = 5_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name.endswith("s_per_page"):
                check_number(one.name, value, low=1, high=MOST_PER_PAGE, whole=True)
            elif value is not None:
                low = 0 if one.name == "max_depth" else 1
                check_number(one.name, value, low=low, high=2**40, whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bloom:
    """Opt-in, lossy dedup: about one new URL in 1/error_rate is taken for seen, and skipped. That
    holds up to the capacity, which each shard has; `status`, `doctor` and `audit` tell when it is
    passed."""

    capacity: int
    error_rate: float = 1e-4

    BLOCK_BITS = 2**19  # 64 KiB a key: no single huge allocation, no key that blocks the server

    def __post_init__(self) -> None:
        check_number("capacity", self.capacity, low=1, high=10**11, whole=True)
        check_number(
            "error_rate", self.error_rate, low=1e-6, high=0.5
        )  # below: 64-bit hashes collide

    @property
    def hashes(self) -> int:
        return max(1, round(-math.log2(self.error_rate)))

    @property
    def blocks(self) -> int:
        bits = -self.capacity * math.log(self.error_rate) / math.log(2) ** 2
        return max(1, math.ceil(bits / self.BLOCK_BITS))

    def errors_at(self, urls: int) -> float:
        """The share of new URLs that it skips once it has met so many."""
        filled = -math.expm1(-self.hashes * urls / (self.blocks * self.BLOCK_BITS))
        return float(filled**self.hashes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Fixed when the job is created: what counts as the same page, and where it is remembered."""

    shards: int = 1
    bloom: Bloom | None = None
    canonical: Canonical = field(default_factory=Canonical)
    order: Literal["fifo", "lifo"] = "fifo"  # within a host and a priority: first or last come

    def __post_init__(self) -> None:
        check_number("shards", self.shards, low=1, high=1024, whole=True)
        if self.order not in ("fifo", "lifo"):
            raise BadOption("order", self.order, "fifo or lifo")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Everything that may change while the job runs."""

    politeness: Politeness = field(default_factory=Politeness)
    retries: Retries = field(default_factory=Retries)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the state lives: a server by its URL, or the embedded one in a directory."""

    redis_url: str | None = field(default=None, repr=False)  # may carry a password
    directory: Path = Path(".skitter")

    @classmethod
    def from_environment(
        cls, *, redis_url: str | None = None, directory: Path | None = None
    ) -> Self:
        """The arguments win; then SKITTER_REDIS_URL and SKITTER_DIR; then the embedded server."""
        if redis_url is not None and not (isinstance(redis_url, str) and redis_url):
            raise BadOption("redis", redis_url, "a server's URL, such as redis://localhost:6379")
        return cls(
            redis_url=redis_url or os.environ.get("SKITTER_REDIS_URL") or None,
            directory=Path(directory or os.environ.get("SKITTER_DIR") or ".skitter"),
        )


def check_job_name(name: str) -> str:
    """The name as it came, or BadJobName: it becomes part of every key, inside a hash tag."""
    if not isinstance(name, str) or not _JOB_NAME.fullmatch(name):
        raise BadJobName(str(name))
    return name


def check_priority(priority: int) -> int:
    """Priorities share a 53-bit score with the order of arrival, so their range is bounded."""
    check_number("priority", priority, low=-MAX_PRIORITY, high=MAX_PRIORITY, whole=True)
    return priority


def check_number(
    option: str, value: float, *, low: float, high: float, whole: bool = False
) -> None:
    """Raise BadOption for anything but a number in its range; `whole`: without a fraction."""
    good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not good or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise BadOption(option, value, f"{kind} from {low:,} to {high:,}")
