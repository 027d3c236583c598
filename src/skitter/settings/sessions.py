"""Cookies and sessions."""

from __future__ import annotations

from dataclasses import dataclass

from skitter.settings.option import Table, option


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
