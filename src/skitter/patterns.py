"""URL patterns.

Globs match the whole URL: `*` stands for any characters, everything else for itself, even `?`. One
that begins with `/` is matched against path and query only. A pattern that begins with `re:` is a
regular expression that may match anywhere in the URL.
"""

from __future__ import annotations

import re
from functools import lru_cache

from skitter.errors import BadOption


def compile_pattern(pattern: str, *, option: str = "pattern") -> re.Pattern[str]:
    """A glob, or a regular expression with `re:` in front. Raises BadOption."""
    if not isinstance(pattern, str) or not pattern:
        raise BadOption(option, pattern, "globs or 're:...' as strings")
    if not pattern.startswith("re:"):
        return re.compile(_glob(pattern), re.DOTALL)
    try:
        return re.compile(pattern[3:])
    except re.error as error:
        raise BadOption(option, pattern, f"a regular expression ({error})") from None


def _glob(pattern: str) -> str:
    front = r"\Ahttps?://[^/]*" if pattern.startswith("/") else r"\A"
    first, *rest = (re.escape(piece) for piece in pattern.split("*"))
    if not rest:
        return rf"{front}{first}\Z"
    *middle, last = rest
    # Atomic: the first place where a piece fits is as good as any later one, so a pattern with many
    # stars cannot be made to backtrack over a long URL.
    return f"{front}{first}{''.join(f'(?>.*?{piece})' for piece in middle)}.*{last}\\Z"


@lru_cache(maxsize=64)
def compile_patterns(patterns: str, *, option: str = "pattern") -> tuple[re.Pattern[str], ...]:
    """Compile several patterns, separated by spaces. Raises BadOption."""
    return tuple(compile_pattern(one, option=option) for one in patterns.split())


def first_match(patterns: str, url: str) -> str | None:
    """The first of several patterns that matches."""
    for text, pattern in zip(patterns.split(), compile_patterns(patterns), strict=True):
        if pattern.search(url):
            return text
    return None
