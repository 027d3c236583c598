"""The smaller tables of a worker: the browser, item quality, sessions.

The browser that renders pages: which one, how many pages at a time, and when it is replaced.

What counts as bad item quality, and what to do about it.

Cookies and sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skitter.settings.option import Table, option


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions(Table):
    """How pages are rendered. Only handlers with `render` need it."""

    provider: Literal["playwright", "patchright"] = option(
        "playwright", "The library that drives the browser."
    )
    executable: Path | None = option(
        None, "The browser to start. none: the first Chromium or Chrome on the PATH."
    )
    # Anyone who can connect to it controls that browser.
    cdp_url: str | None = option(
        None,
        "Use a browser that runs elsewhere, by its DevTools address. Its traffic leaves from "
        "there: only the addresses of pages are guarded, not what they load.",
        secret=True,
    )
    concurrency: int = option(4, "Pages at a time, per process.", low=1, high=100)
    deadline_s: float = option(30.0, "Seconds for a whole page.", low=1, high=600)
    settle_s: float = option(
        5.0, "Longest wait for the network to become quiet, in seconds.", low=0, high=600
    )
    pages_per_context: int = option(
        50, "Close the context of a session after this many pages.", low=1, high=10_000
    )
    context_age_s: float = option(
        600.0, "Close the context of a session after this many seconds.", low=1, high=86_400
    )
    pages_per_browser: int = option(
        500, "Replace the browser after this many pages.", low=1, high=100_000
    )
    browser_age_s: float = option(
        3600.0, "Replace the browser after this many seconds.", low=1, high=86_400
    )
    max_memory_mb: int | None = option(
        2000, "Replace a browser that uses more than this many MB.", low=100, high=2**24
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPool(Table):
    """The sessions that a crawl keeps per site (registrable domain), and when one is retired."""

    cookies: bool = option(True, "Keep cookies, as browsers do.", flag="--cookies/--no-cookies")
    size: int = option(1, "Sessions per site and class.", low=1, high=100)
    max_uses: int | None = option(
        None, "Retire a session after this many pages.", low=1, high=10**9
    )
    max_errors: int = option(
        3,
        "Retire a session after this many refusals: 401, 403, 429 and block pages. A page that "
        "arrives makes up for half a refusal.",
        low=1,
        high=1000,
    )
    max_age_s: float | None = option(
        None, "Retire a session after this many seconds.", low=1, high=400 * 86_400
    )
