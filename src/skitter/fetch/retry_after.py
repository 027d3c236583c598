"""How long a server asks us to wait."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_S: Final = 86_400.0

_LONGEST_TEXT: Final = 100  # three times a date; the date parser is slow on more
_SECONDS: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")  # fractions are not allowed, but are sent


def retry_after_s(value: str | None, *, now: float, longest_s: float = LONGEST_S) -> float | None:
    """Seconds from `now` by a Retry-After header, at most `longest_s`; None if it says nothing.

    RFC 9110 10.2.3: seconds, or an HTTP date. A date in the past means no wait.
    """
    text = (value or "").strip()[:_LONGEST_TEXT]
    if _SECONDS.fullmatch(text):
        return min(float(text), longest_s)
    moment = _moment(text)
    return None if moment is None else min(max(0.0, moment - now), longest_s)


def _moment(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # "-0000", or asctime: HTTP dates are in GMT
        date = date.replace(tzinfo=UTC)
    try:
        return date.timestamp()
    except OverflowError:
        return None
