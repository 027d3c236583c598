"""What counts as bad item quality, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skitter.settings.option import Table, option


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityOptions(Table):
    """When scraped items count as bad, and what `run` does then. A handler's latest pages are
    compared with the best stretch before them."""

    min_pages: int = option(
        100, "Pages to compare with as many before them; with fewer, nothing is judged.",
        low=10, high=1_000_000,
    )  # fmt: skip
    max_fill_drop: float | None = option(
        0.5, "How much the fill rate of a field may drop: 0.5 is by half.", low=0.01, high=1
    )
    max_items_drop: float | None = option(
        0.7, "How much the number of items per page may drop: 0.7 is to 30 %.", low=0.01, high=1
    )
    min_items_per_page: float | None = option(
        None, "Smallest acceptable number of items per page.", low=0, high=10_000
    )
    max_blocked: float | None = option(
        0.2, "Largest share of responses that may be block pages.", low=0.001, high=1
    )
    max_blocked_rise: float | None = option(
        0.1, "How much that share may rise: 0.1 is from 1 % to 11 %.", low=0.001, high=1
    )
    on_bad: Literal["warn", "fail", "pause"] = option(
        "warn",
        "On bad quality: warn, fail (run exits with 1), or pause the crawl at once and fail.",
        flag="--on-bad",
    )
    on_empty: Literal["warn", "fail"] = option(
        "fail",
        "If a spider that yields items has stored none: warn, or fail (run exits with 1).",
        flag="--on-empty",
    )
