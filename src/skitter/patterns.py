"""URL patterns.

Globs match the whole URL: `*` stands for any characters, everything else for itself, even `?`. One
that begins with `/` is matched against path and query only. A pattern that begins with `re:` is a
regular expression that may match anywhere in the URL.

URLs are written by strangers, and the patterns of a job may be, too. Python's `re` takes
exponential time for some pairs of them, so expressions are run by RE2, whose time is linear.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from skitter.errors import BadOption

#: Of all patterns of an option: its characters, and its instructions in RE2. A URL of 8 KB then
#: takes 10 ms at the worst.
MAX_CHARACTERS: Final = 32_768
MAX_INSTRUCTIONS: Final = 2_000
# What RE2 spells otherwise, or would read as plain text: \Z and x{,3}; not inside of [...].
_OTHERWISE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\{,(?=\d*\})", re.DOTALL)
_SPELLED: Final = {r"\Z": r"\z", "{,": "{0,"}


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, url: str, /) -> object:
        """Something true if the URL matches."""
        ...


class Glob(NamedTuple):
    """The pieces between the stars."""

    first: str
    middle: tuple[str, ...]
    last: str | None  # None: there is no star

    def search(self, url: str, /) -> bool:
        start = _path_of(url) if self.first[:1] == "/" else 0
        if self.last is None:
            return url[start:] == self.first
        if not url.startswith(self.first, start):
            return False
        at = start + len(self.first)
        for piece in self.middle:  # the first place where it fits is as good as any later one
            at = url.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return url.endswith(self.last, at)


def compile_pattern(pattern: str, *, option: str = "pattern") -> Pattern:
    """A pattern in a spider's code, which may look around and back if it must. Raises BadOption."""
    if not isinstance(pattern, str) or not pattern:
        raise BadOption(option, pattern, "globs or 're:...' as strings")
    if not pattern.startswith("re:"):
        return _glob(pattern)
    by_python = _by_python(pattern, option)
    try:
        return _linear(pattern)
    except ValueError:
        return by_python


@lru_cache(maxsize=64)
def compile_patterns(patterns: str, *, option: str = "pattern") -> tuple[Pattern, ...]:
    """Compile the patterns of a job, separated by spaces. Raises BadOption."""
    if len(patterns) > MAX_CHARACTERS:
        raise BadOption(option, patterns, f"at most {MAX_CHARACTERS:,} characters")
    found = tuple(_of_job(one, option) for one in patterns.split())
    if sum(getattr(one, "programsize", 0) for one in found) > MAX_INSTRUCTIONS:
        raise BadOption(option, patterns, "fewer or simpler regular expressions")
    return found


def first_match(patterns: str, url: str) -> str | None:
    """The first of several patterns that matches."""
    for text, pattern in zip(patterns.split(), compile_patterns(patterns), strict=True):
        if pattern.search(url):
            return text
    return None


def _of_job(pattern: str, option: str) -> Pattern:
    if not pattern.startswith("re:"):
        return _glob(pattern)
    _by_python(pattern, option)  # so that both read it alike, and errors are Python's
    try:
        return _linear(pattern)
    except ValueError as error:
        wanted = f"a regular expression without look-around and back-references ({error})"
        raise BadOption(option, pattern, wanted) from None


def _by_python(pattern: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern[3:])
    except (re.error, OverflowError) as error:
        raise BadOption(option, pattern, f"a regular expression ({error})") from None
    except RecursionError:
        raise BadOption(option, pattern, "a regular expression that is less nested") from None


def _linear(pattern: str) -> Pattern:
    """Raises ValueError for what takes backtracking."""
    import re2  # 5 ms, and few crawls have such a pattern

    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    text = _OTHERWISE.sub(lambda found: _SPELLED.get(found[0], found[0]), pattern[3:])
    try:
        compiled: Any = re2.compile(text, options)
    except re2.error as error:
        said = error.args[0]
        raise ValueError(said.decode() if isinstance(said, bytes) else str(said)) from None
    return compiled  # type: ignore[no-any-return]


def _glob(pattern: str) -> Glob:
    first, *rest = pattern.split("*")
    return Glob(first, tuple(rest[:-1]), rest[-1]) if rest else Glob(first, (), None)


def _path_of(url: str) -> int:
    """Where the path of an http(s) URL begins; its end if it has none."""
    host = url.find("://") + 3
    path = url.find("/", host) if url.startswith(("http://", "https://")) else -1
    return path if path >= 0 else len(url)
