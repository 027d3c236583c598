"""The browser that renders pages: which one, how many pages at a time, and when it is replaced."""

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
